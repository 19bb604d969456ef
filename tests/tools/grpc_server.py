"""A gRPC server for the suites: listens as a control plane configures it (gRFC A36), with the C core.

Usage: grpc_server.py ADDRESS BACKEND

Each unary call of any method is answered with the name of the backend, and with the identity that the client proved, if any:
BACKEND or "BACKEND IDENTITY". It writes one line to standard output when it has been started; it accepts connections once the
control plane has sent its listener.
"""

import concurrent.futures
import json
import sys

import grpc


class Everything(grpc.GenericRpcHandler):
    """Answers every method."""

    def __init__(self, backend):
        self._backend = backend

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request, context):
        identities = [name.decode() for name in context.peer_identities() or ()]
        return " ".join([self._backend, *identities]).encode()


def main():
    address, backend = sys.argv[1:3]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8), xds=True)
    server.add_generic_rpc_handlers((Everything(backend),))
    plain = grpc.insecure_server_credentials()
    server.add_secure_port(address, grpc.xds_server_credentials(plain))
    server.start()
    print(json.dumps({"ready": grpc.__version__}), flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
