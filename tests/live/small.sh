# The small fleet: sourced by up.

{
  jq -n -f nodes.jq | admin create -f -
  admin create -f daemons.yaml
} >>"$LIVE_DIR/logs/fleet.log" 2>&1
wait_for 120 "the nodes to be ready" nodes_are_ready 20
wait_for 120 "the service accounts" accounts_ready
admin cordon l4-5 >>"$LIVE_DIR/logs/fleet.log" 2>&1
admin annotate node l4-5 stokehold.dev/cordoned-by=live-setup stokehold.dev/cordoned-why='fan replacement' >>"$LIVE_DIR/logs/fleet.log" 2>&1
admin create -f 1-plain.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
wait_for 120 "the plain pods in nlp to be bound" placed nlp 2
wait_for 120 "the plain pods in notebooks to be bound" placed notebooks 4
admin create -f 2-running.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
running() {
  sees '{"pods": 30, "without_node": []}' '[.items[] | select(.metadata.namespace != "gpu-operator")]
    | {pods: length, without_node: [.[] | select(.spec.nodeName == null) | .metadata.name]}' pods -A
}
wait_for 120 "the running workloads to be bound" running
admin create -f 3-waiting.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
settled() {
  sees '{"exporters": 20, "running": 27, "without_node": 11, "jobs_over": 2}' '[.items[] | select(.kind == "Pod")] as $pods | {
      exporters: [$pods[] | select(.metadata.labels.app == "nvidia-dcgm-exporter" and .status.phase == "Running")] | length,
      running: [$pods[] | select(.metadata.namespace != "gpu-operator" and .status.phase == "Running")] | length,
      without_node: [$pods[] | select(.status.phase == "Pending" and .spec.nodeName == null)] | length,
      jobs_over: [.items[] | select(.kind == "Job" and any(.status.conditions[]?; .type == "Complete" or .type == "Failed"))] | length
    }' pods,jobs -A
}
wait_for 180 "the workloads to settle" settled
