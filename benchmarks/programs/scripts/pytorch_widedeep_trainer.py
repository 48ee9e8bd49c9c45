"""A wide and deep classifier trained by pytorch-widedeep's Trainer, as its quick start shows."""

import numpy as np
import pandas as pd
import torch
from pytorch_widedeep import Trainer
from pytorch_widedeep.callbacks import EarlyStopping, LRHistory, ModelCheckpoint
from pytorch_widedeep.metrics import Accuracy
from pytorch_widedeep.models import TabMlp, Wide, WideDeep
from pytorch_widedeep.preprocessing import TabPreprocessor, WidePreprocessor

torch.manual_seed(0)
rng = np.random.default_rng(0)
size = 288
frame = pd.DataFrame(
    {
        "education": rng.choice(["low", "middle", "high"], size),
        "work": rng.choice(["a", "b", "c", "d"], size),
        "age": rng.normal(40, 10, size),
        "hours": rng.normal(35, 5, size),
    }
)
frame["target"] = ((frame["age"] > 40) ^ (frame["work"] == "a")).astype(int)
train, test = frame[:256], frame[256:]
wide_preprocessor = WidePreprocessor(wide_cols=["education", "work"], crossed_cols=[("education", "work")])
X_wide = wide_preprocessor.fit_transform(train)
tab_preprocessor = TabPreprocessor(cat_embed_cols=["education", "work"], continuous_cols=["age", "hours"])
X_tab = tab_preprocessor.fit_transform(train)

wide = Wide(input_dim=np.unique(X_wide).shape[0], pred_dim=1)
tab_mlp = TabMlp(
    column_idx=tab_preprocessor.column_idx,
    cat_embed_input=tab_preprocessor.cat_embed_input,
    continuous_cols=["age", "hours"],
    mlp_hidden_dims=[32, 16],
)
model = WideDeep(wide=wide, deeptabular=tab_mlp)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
trainer = Trainer(
    model,
    objective="binary",
    optimizers=optimizer,
    lr_schedulers=torch.optim.lr_scheduler.StepLR(optimizer, step_size=2),
    callbacks=[LRHistory(n_epochs=3), EarlyStopping(patience=3), ModelCheckpoint(filepath="weights/wd")],
    metrics=[Accuracy],
    seed=0,
    num_workers=0,
    verbose=1,
)
trainer.fit(X_wide=X_wide, X_tab=X_tab, target=train["target"].values, n_epochs=3, batch_size=32, val_split=0.25)
predictions = trainer.predict_proba(
    X_wide=wide_preprocessor.transform(test), X_tab=tab_preprocessor.transform(test), batch_size=16
)
results = {
    "history": {name: [float(v) for v in values] for name, values in trainer.history.items()},
    "predictions": torch.from_numpy(predictions),
    "state": dict(model.state_dict()),
}
