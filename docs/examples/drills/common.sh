# Functions of the drills, which source this file. They need bash, and `tributary` with TRIBUTARY_SERVER where the server is not local.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"; kill "${sampling:-}" 2> /dev/null || true' EXIT

# Prints the healthy endpoints that clients are sent: address, service and port. Takes flags of `get endpoints`.
served() { tributary get endpoints --no-headers "$@" | awk '$4 == "HEALTHY" {print $1, $2, $3}' | sort; }

# Notes what is served, and from now on every endpoint of it that is missing at any time.
begin() {
  served > "$work/before"
  [ -s "$work/before" ] || end_with "nothing is served before the drill"
  while [ ! -e "$work/ended" ]; do
    sleep 0.2
    served > "$work/now" || continue
    comm -23 "$work/before" "$work/now" >> "$work/missing"
  done &
  sampling=$!
}

# Ends the drill: it fails if an endpoint was missing once, or is now. $1 are endpoints that may be.
end() {
  # The sample that is being taken is finished first: both write the same file.
  touch "$work/ended"
  wait "$sampling"
  served > "$work/now"
  comm -23 "$work/before" "$work/now" >> "$work/missing"
  sort -u "$work/missing" | comm -23 - "${1:-/dev/null}" > "$work/lost"
  [ ! -s "$work/lost" ] || end_with "lost: $(paste -sd, "$work/lost")"
  echo "passed: $(wc -l < "$work/before") endpoints before, $(wc -l < "$work/now") after, none lost"
}

end_with() {
  echo "FAILED: $1" >&2
  exit 3
}

# Fails unless a cluster is in a state now.
is() {
  tributary cluster wait "$1" --for="$2" --timeout 1s > /dev/null || end_with "cluster $1 is not $2"
}
