#!/usr/bin/env bash
# Drill: remove a cluster. Passes if its endpoints are gone with a receipt, those of other clusters were never missing, and no host is
# without an endpoint: that is refused.
#
#     remove.sh CLUSTER [FLAGS of `cluster remove`]
. "$(dirname "$0")/common.sh"
cluster=$1
begin
{ served --registry "$cluster"; served --registry "$cluster-entries"; } | sort > "$work/own"
tributary cluster remove "$cluster" "${@:2}"
is "$cluster" removed
end "$work/own"
