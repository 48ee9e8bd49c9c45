"""A language model of random bytes, trained and asked for more as x_transformers' examples show."""

import torch
from torch.utils.data import DataLoader, Dataset
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

NUM_BATCHES = 12
GRADIENT_ACCUMULATE_EVERY = 2
SEQ_LEN = 32


def cycle(loader):
    while True:
        yield from loader


class TextSamplerDataset(Dataset):
    def __init__(self, data):
        self.data = data

    def __getitem__(self, index):
        start = torch.randint(0, self.data.size(0) - SEQ_LEN - 1, (1,))
        return self.data[start : start + SEQ_LEN + 1].long().cuda()

    def __len__(self):
        return self.data.size(0) // SEQ_LEN


torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=256,
        max_seq_len=SEQ_LEN,
        attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True),
    )
)
model.cuda()
data = torch.randint(0, 256, (1024,), dtype=torch.uint8)
train_loader = cycle(DataLoader(TextSamplerDataset(data[:768]), batch_size=4, drop_last=True))
val_loader = cycle(DataLoader(TextSamplerDataset(data[768:]), batch_size=4, drop_last=True))
optim = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(NUM_BATCHES):
    model.train()
    for _ in range(GRADIENT_ACCUMULATE_EVERY):
        loss = model(next(train_loader))
        (loss / GRADIENT_ACCUMULATE_EVERY).backward()
    print(f"training loss: {loss.item()}")
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optim.step()
    optim.zero_grad()
    if i % 5 == 0:
        model.eval()
        with torch.no_grad():
            print(f"validation loss: {model(next(val_loader)).item()}")
    if i % 10 == 0:
        model.eval()
        sample = model.generate(prompts=data[:8].long().cuda(), seq_len=8, cache_kv=True)
        print(sample.tolist())

results = {"loss": loss.detach(), "sample": sample, "state": dict(model.state_dict())}
