# The fleet of the second lane: KubeRay, KAI's scheduler with its controllers, and Karpenter with its own kwok provider. It has no
# nodes but those that tests bring and Karpenter makes. Sourced by up.

jq -n -f second.jq >"$LIVE_DIR/objects/second.json"
seed "$definitions/second.json" "$LIVE_DIR/objects/second.json"
wait_for 120 "the service accounts" accounts_ready
wait_for_kueue

# They take the kubeconfig from the environment, and answer at a port of their own when they run.
controller() { # PROGRAM PORT ARGUMENT...
  local program=$1 port=$2
  shift 2
  start_as "$program" env KUBECONFIG="$LIVE_DIR/plane.kubeconfig" SYSTEM_NAMESPACE=karpenter BATCH_IDLE_DURATION=300ms BATCH_MAX_DURATION=2s \
    "$(live_bin "$program")" "$@"
  ports[$program]=$port
}
declare -A ports=()
controller kuberay 9501 --metrics-addr 0 --health-probe-bind-address "$LIVE_ADDRESS:9501" --enable-leader-election=false
controller karpenter 9502 --disable-leader-election --metrics-port 9503 --health-probe-port 9502 --instance-types-file-path "$LIVE_HERE/config/instances.json"
controller kai-scheduler 9504 --listen-address "$LIVE_ADDRESS:9504" --plugin-server-port 9505 --namespace kai-scheduler --v 2
controller kai-podgrouper 9506 --metrics-bind-address 0 --health-probe-bind-address "$LIVE_ADDRESS:9506"
controller kai-podgroupcontroller 9507 --metrics-bind-address 0 --health-probe-bind-address "$LIVE_ADDRESS:9507" --enable-podgroup-webhook=false
controller kai-queuecontroller 0 --metrics-listen-address 0 --enable-webhook=false
controller kai-binder 9508 --metrics-bind-address 0 --health-probe-bind-address "$LIVE_ADDRESS:9508"
# (Any answer will do.)
answers() { nsenter --net="/run/netns/$ns" curl -s -o /dev/null "http://$LIVE_ADDRESS:$1/"; }
for program in "${!ports[@]}"; do
  [ "${ports[$program]}" = 0 ] || wait_for 120 "$program" answers "${ports[$program]}"
done
