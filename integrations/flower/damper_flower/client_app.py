"""The ClientApp that Flower's app must name. It answers nothing: a device is answered for by `damper-flower-worker`, which runs no app."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Refuses: here runs what a server shipped."""
    raise RuntimeError("a device answers by damper-flower-worker, behind `flower-supernode --isolation process`")
