"""A small training by Lightning under torchrun: DDPStrategy(process_group_backend="tandem"), against the same over gloo."""
from job import answer, results_of


def fit(backend):
    import lightning
    import torch
    import torch.distributed as dist
    from lightning.pytorch.strategies import DDPStrategy

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
            self.losses, self.validation = [], None

        def loss(self, batch):
            return (self.net(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()

        def training_step(self, batch, _):
            loss = self.loss(batch)
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, _):
            self.log("validation", self.loss(batch), sync_dist=True)

        def on_validation_end(self):
            self.validation = self.trainer.callback_metrics["validation"].item()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    lightning.seed_everything(7)
    data = torch.utils.data.TensorDataset(torch.randn(96, 16))
    model = Model()
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend=backend), max_epochs=2,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                num_sanity_val_steps=0)
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8, shuffle=True), torch.utils.data.DataLoader(data, batch_size=8))
    assert dist.get_backend() == backend
    rank = dist.get_rank()
    dist.destroy_process_group()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum().item()
    return {"rank": rank, "losses": model.losses, "validation": model.validation, "weights": weights}


def test_lightning_trains_as_over_gloo(tmp_path):
    own, other = (results_of(__file__, backend, tmp_path) for backend in ("tandem", "gloo"))
    assert own == other
    assert len(own[0]["losses"]) == 12
    assert own[0]["weights"] == own[1]["weights"]
    assert own[0]["validation"] == own[1]["validation"]


if __name__ == "__main__":
    answer(fit)
