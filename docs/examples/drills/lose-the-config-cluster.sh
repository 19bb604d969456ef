#!/usr/bin/env bash
# Drill: lose the API server of the config cluster. Passes if the loss is shown, the remote cluster stays live without it, no endpoint
# was missing meanwhile, and everything is live again once it is back.
#
#     lose-the-config-cluster.sh CONFIG-CLUSTER REMOTE-CLUSTER 'COMMAND THAT TAKES IT AWAY' 'COMMAND THAT BRINGS IT BACK'
. "$(dirname "$0")/common.sh"
config=$1 remote=$2 away=$3 back=$4
begin
bash -c "$away"
tributary cluster wait "$config" --for=Unreachable --timeout 5m
is "$remote" Live
bash -c "$back"
tributary cluster wait "$config" --for=Live --timeout 5m
is "$remote" Live
end
