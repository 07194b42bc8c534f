"""The ClientApp: the client that the run's configuration chooses."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp


class ChosenClientApp(ClientApp):
    """Hands each message to the client of the configured learner and transport.

    A federation has one kind of client; this one app holds several so that `flwr run -c` can choose.
    """

    def __call__(self, message: Message, context: Context) -> Message:
        """The reply of the chosen client."""
        if context.run_config["secure"]:
            from federated_search.secagg_client import app as chosen
        elif context.run_config["flower-dp"] == "local":
            from federated_search.dp_clients import local_app as chosen
        elif context.run_config["flower-dp"] == "central":
            from federated_search.dp_clients import central_app as chosen
        elif context.run_config["learner"] == "mlp":
            from federated_search.mlp_client import app as chosen
        else:
            from federated_search.pdgd_client import app as chosen
        return chosen(message, context)


app = ChosenClientApp()
