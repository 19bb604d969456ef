#!/usr/bin/env bash
# Drill: lose the API server of a remote cluster. Passes if the loss is shown, no endpoint was missing meanwhile, and the cluster is
# live again once its API server is back.
#
#     lose-a-cluster.sh CLUSTER 'COMMAND THAT TAKES IT AWAY' 'COMMAND THAT BRINGS IT BACK'
. "$(dirname "$0")/common.sh"
cluster=$1 away=$2 back=$3
begin
bash -c "$away"
tributary cluster wait "$cluster" --for=Unreachable --timeout 5m
bash -c "$back"
tributary cluster wait "$cluster" --for=Live --timeout 5m
end
