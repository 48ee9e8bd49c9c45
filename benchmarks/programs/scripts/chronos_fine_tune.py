"""A small Chronos-2 forecaster of random weights, fine-tuned on synthetic series with its pipeline's `fit`."""

import torch
from chronos import Chronos2Pipeline
from chronos.chronos2 import Chronos2Model
from chronos.chronos2.config import Chronos2CoreConfig
from transformers import set_seed

set_seed(0)
quantiles = [i / 10 for i in range(1, 10)]
config = Chronos2CoreConfig(
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
    vocab_size=2,
    reg_token_id=1,
    chronos_config={
        "context_length": 64,
        "output_patch_size": 8,
        "input_patch_size": 8,
        "input_patch_stride": 8,
        "quantiles": quantiles,
        "use_reg_token": True,
        "use_arcsinh": True,
        "max_output_patches": 4,
        "time_encoding_scale": 64,
    },
)
pipeline = Chronos2Pipeline(Chronos2Model(config).to("cuda"))
time = torch.arange(120)
series = [torch.sin(time / (2 + i)) + 0.1 * torch.randn(120) for i in range(16)]
tuned = pipeline.fit(
    inputs=[each[:-8].numpy() for each in series],
    prediction_length=8,
    validation_inputs=[each.numpy() for each in series],
    num_steps=16,
    learning_rate=1e-3,
    batch_size=8,
    logging_steps=4,
    eval_steps=8,
    save_steps=8,
    output_dir="tuned",
    tf32=False,
    disable_tqdm=True,
    remove_printer_callback=True,
)
predicted, mean = tuned.predict_quantiles(
    [each[:-8] for each in series[:4]], prediction_length=8, quantile_levels=[0.1, 0.5, 0.9]
)
results = {"predicted": list(predicted), "mean": list(mean), "state": dict(tuned.model.state_dict())}
