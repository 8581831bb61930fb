# The large fleet, over the small one: sourced by up.
#
# What competes for the same nodes or the same quota is made in an order, each after a wait for the state that the one
# before leads to: the end is the same however slow the machine is.

cd "$LIVE_HERE/fleet"
objects=$LIVE_DIR/objects
jq -n -f wide-nodes.jq >"$objects/nodes.json"
for part in owners children late fill; do jq -n --arg part "$part" -f work.jq >"$objects/work-$part.json"; done
for part in queues first second held; do jq -n --arg part "$part" -f kueue.jq >"$objects/queue-$part.json"; done
seed "$objects/nodes.json"
wait_for 180 "the nodes of the large fleet" nodes_are_ready 200
admin create -f monitoring.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
seed "$objects/queue-queues.json" "$objects/work-owners.json"

queues_active() {
  sees '["product-batch","product-serve","research-llm","research-vision","tpu-lab"]' \
    '[.items[] | select(any(.status.conditions[]?; .type == "Active" and .status == "True")) | .metadata.name] | sort' clusterqueues.kueue.x-k8s.io
}
wait_for 120 "the queues to be active" queues_active
seed "$objects/queue-first.json" "$objects/work-children.json"

# workloads WANTED: how many jobs Kueue has admitted, which of the gangs, and which it has preempted.
workloads() {
  sees "$1" '[.items[] | {job: (.metadata.ownerReferences[0].name // .metadata.name), is: [.status.conditions[]? | select(.status == "True") | .type]}]
    | {admitted: ([.[] | select(.is | index("Admitted"))] | length),
       gangs: ([.[] | select((.is | index("Admitted")) and (.job | IN("moe-400b", "ablate-a", "ablate-b", "rerank", "distil", "detect-xl"))) | .job] | sort),
       preempted: [.[] | select(.is | index("Preempted")) | .job]}' workloads.kueue.x-k8s.io -A
}
wait_for 180 "Kueue to admit the first jobs" workloads '{"admitted": 68, "gangs": ["ablate-a", "ablate-b", "distil", "moe-400b", "rerank"], "preempted": []}'
# All gangs have their whole nodes before anything small is let near them, and pods own what comes next.
wait_for 180 "the gangs of robotics to be bound" placed robotics 9
wait_for 180 "the pods of lab to be bound" placed lab 37
wait_for 180 "serving to be bound" placed inference 32
wait_for 180 "the gangs of research to be bound" placed research-llm 28
seed "$objects/work-late.json"
wait_for 180 "the late gangs of robotics to be bound" placed robotics 15
wait_for 180 "the groups of llama to be bound" placed inference 34
seed "$objects/work-fill.json"
wait_for 180 "the sweep to be bound" placed lab 85

seed "$objects/queue-second.json"
# Nothing else may ask for what the preemption sets free before the job that preempts has it.
wait_for 180 "the preemption" workloads '{"admitted": 68, "gangs": ["ablate-a", "detect-xl", "distil", "moe-400b", "rerank"], "preempted": ["ablate-b"]}'
wait_for 180 "the job that preempts to be bound" placed research-vision 24
seed "$objects/queue-held.json"
held() {
  sees '{"workloads": 100, "admitted": 68}' '{workloads: (.items | length), admitted: ([.items[] | select(any(.status.conditions[]?; .type == "Admitted" and .status == "True"))] | length)}' workloads.kueue.x-k8s.io -A
}
wait_for 180 "the jobs that wait to be known to Kueue" held
# (Lists of two thousand pods are costly: counts instead.)
all_settled() {
  local all pending
  all=$(admin get --raw '/api/v1/pods?limit=1' | jq '.metadata.remainingItemCount + 1')
  pending=$(admin get --raw '/api/v1/pods?fieldSelector=status.phase%3DPending' | jq -c '[.items[].metadata | "\(.namespace)/\(.name)"]')
  echo "$all pods of 2032, $(jq length <<<"$pending") pending of 12: ${pending:0:1500}"
  [ "$all" = 2032 ] && [ "$(jq length <<<"$pending")" = 12 ]
}
wait_for 300 "the pods of the large fleet" all_settled
