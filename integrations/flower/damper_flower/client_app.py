"""The ClientApp that Flower's app must name. It answers nothing: `damper-flower-worker` answers for a device, and it
runs no app."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Fails, because the code here came from a server."""
    raise RuntimeError("a device answers by damper-flower-worker, behind `flower-supernode --isolation process`")
