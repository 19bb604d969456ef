#!/usr/bin/env bash
# Drill: rotate the credential of a cluster. Passes if it is served with the new one and no endpoint was missing meanwhile.
#
#     rotate.sh CLUSTER CONTEXT [FLAGS of `cluster rotate`]
. "$(dirname "$0")/common.sh"
cluster=$1 context=$2
begin
tributary cluster rotate "$cluster" --from-context "$context" "${@:3}"
is "$cluster" Live
end
