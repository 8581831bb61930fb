# What measures the fleet: the exporters' answers, Prometheus and Alertmanager. Sourced by up.

"$LIVE_HERE/place"
start exposition serve "$LIVE_DIR/placement.json"
an_exporter() {
  local path
  path=$(jq -r '.exporters[-1] | "/api/v1/namespaces/\(.namespace)/pods/\(.pod):9400/proxy/metrics"' "$LIVE_DIR/placement.json")
  admin get --raw "$path" >/dev/null
}
wait_for 60 "an exporter through the API server" an_exporter

cp "$LIVE_HERE/config/prometheus.yaml" "$LIVE_DIR/prometheus/config.yaml"
start_as prometheus "$(live_prometheus)" --config.file "$LIVE_DIR/prometheus/config.yaml" --storage.tsdb.path "$LIVE_DIR/prometheus/data" \
  --web.listen-address :9090 --web.enable-remote-write-receiver --log.level warn
prometheus_ready() { nsenter --net="/run/netns/$ns" curl -sf "http://$LIVE_ADDRESS:9090/-/ready"; }
wait_for 60 "Prometheus" prometheus_ready

mkdir -p "$LIVE_DIR/alertmanager"
cp "$LIVE_HERE/config/alertmanager.yaml" "$LIVE_DIR/alertmanager/config.yaml"
alertmanager=$(live_alertmanager)
# Debian's build reads its templates below /usr/share: where it is only unpacked, they are laid over that, for it alone.
over='share=${1%/bin/*}/share; [ "$share" = /usr/share ] || mount -t overlay overlay -o "lowerdir=$share:/usr/share" /usr/share || { mkdir -p /usr/share/prometheus; mount --bind "$share/prometheus" /usr/share/prometheus; }; exec "$@"'
start_as alertmanager unshare --mount sh -ec "$over" sh "$alertmanager" --config.file "$LIVE_DIR/alertmanager/config.yaml" --storage.path "$LIVE_DIR/alertmanager/data" \
  --web.listen-address :9093 --cluster.listen-address= --log.level warn
alertmanager_ready() { nsenter --net="/run/netns/$ns" curl -sf "http://$LIVE_ADDRESS:9093/-/ready"; }
wait_for 60 "Alertmanager" alertmanager_ready
