# The large fleet, over the small one: sourced by up.
#
# What competes for the same nodes or the same quota is made in an order, each after a wait for the state that the one
# before leads to: the end is the same however slow the machine is.

cd "$LIVE_HERE/fleet"
objects=$LIVE_DIR/objects

# The controllers of jobs. They look for certificates at a fixed place of the file system: they get a root of their own.
# (Not on the small fleet: it is measured and recorded without them.)
root=$LIVE_DIR/controllers
certificates=$root/tmp/k8s-webhook-server/serving-certs
mkdir -p "$certificates"
cp "$LIVE_DIR/pki/kueue.crt" "$certificates/tls.crt"
cp "$LIVE_DIR/pki/kueue.key" "$certificates/tls.key"
cp "$LIVE_DIR/plane.kubeconfig" "$root/kubeconfig"
for program in "${!LIVE_CONTROLLERS[@]}"; do
  jq --arg program "$program" --arg url "https://$LIVE_ADDRESS:${LIVE_CONTROLLERS[$program]}" --arg ca "$(base64 -w0 <"$LIVE_DIR/pki/ca.crt")" \
    -f ../config/webhooks.jq "$definitions/$program.json" >"$objects/$program.json"
  seed "$objects/$program.json"
  cp --reflink=auto "$(live_bin "$program")" "$root/$program"
  cp "../config/$program.yaml" "$root/$program.yaml"
  start_as "$program" chroot "$root" "/$program" --config "/$program.yaml" --kubeconfig /kubeconfig --zap-log-level info
done
jq -n -f wide-nodes.jq >"$objects/nodes.json"
for part in owners children fill; do jq -n --arg part "$part" --arg groups "$group_version" -f work.jq >"$objects/work-$part.json"; done
for part in queues first second held; do jq -n --arg part "$part" -f kueue.jq >"$objects/queue-$part.json"; done
seed "$objects/nodes.json"
wait_for 180 "the nodes of the large fleet" nodes_are_ready 200
admin create -f monitoring.yaml >>"$LIVE_DIR/logs/fleet.log" 2>&1
# (Any answer will do: they are up when their webhooks listen.)
webhooks_answer() { nsenter --net="/run/netns/$ns" curl -sk -o /dev/null "https://$LIVE_ADDRESS:$1/"; }
for program in "${!LIVE_CONTROLLERS[@]}"; do wait_for 120 "the webhooks of $program" webhooks_answer "${LIVE_CONTROLLERS[$program]}"; done
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
# All gangs have their whole nodes before anything small is let near them.
wait_for 180 "the gangs of robotics to be bound" placed robotics 11
wait_for 180 "the pods of lab to be bound" placed lab 36
wait_for 180 "serving and the groups of llama to be bound" placed inference 34
wait_for 180 "the gangs of research to be bound" placed research-llm 28
seed "$objects/work-fill.json"
wait_for 180 "the sweep to be bound" placed lab 84

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
  echo "$all pods of 2027, $(jq length <<<"$pending") pending of 12: ${pending:0:1500}"
  [ "$all" = 2027 ] && [ "$(jq length <<<"$pending")" = 12 ]
}
wait_for 300 "the pods of the large fleet" all_settled
