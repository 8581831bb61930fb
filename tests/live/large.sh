# The large fleet, over the small one: sourced by up.

cd "$LIVE_HERE/fleet"
objects=$LIVE_DIR/objects
jq -n -f wide-nodes.jq >"$objects/nodes.json"
for part in owners children late; do jq -n --arg part "$part" -f work.jq >"$objects/work-$part.json"; done
for part in queues first second held; do jq -n --arg part "$part" -f kueue.jq >"$objects/queue-$part.json"; done
seed "$objects/nodes.json"
wait_for 60 "the nodes of the large fleet" nodes_are_ready 200
admin create -f monitoring.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
seed "$objects/queue-queues.json" "$objects/work-owners.json"

# count KIND PREDICATE: how many objects it holds of.
count() { admin get "$1" -A -o json | jq "[.items[] | select($2)] | length"; }
has() { printf 'any(.status.conditions[]?; .type == "%s" and .status == "True")' "$1"; }
queues_active() { [ "$(count clusterqueues.kueue.x-k8s.io "$(has Active)")" = 5 ]; }
wait_for 30 "the queues to be active" queues_active
seed "$objects/queue-first.json" "$objects/work-children.json"
admitted() { [ "$(count workloads.kueue.x-k8s.io "$(has Admitted)")" -ge "$1" ]; }
wait_for 90 "Kueue to admit the first jobs" admitted 68
gangs_bound() { [ "$(admin get pods -n robotics -o json | jq '[.items[] | select(.spec.nodeName != null)] | length')" -ge 8 ]; }
wait_for 60 "the gangs to be bound" gangs_bound
seed "$objects/queue-second.json" "$objects/work-late.json"
preempted() { [ "$(count workloads.kueue.x-k8s.io "$(has Preempted)")" -ge 1 ]; }
wait_for 60 "the preemption" preempted
wait_for 60 "the job that preempts" admitted 68
seed "$objects/queue-held.json"
# (Lists of two thousand pods are costly: counts instead.)
all_settled() {
  local all waiting
  all=$(admin get --raw '/api/v1/pods?limit=1' | jq '.metadata.remainingItemCount + 1')
  waiting=$(admin get --raw '/api/v1/pods?fieldSelector=status.phase%3DPending' | jq '.items | length')
  [ "$all" = 2032 ] && [ "$waiting" = 12 ]
}
wait_for 180 "the pods of the large fleet" all_settled
