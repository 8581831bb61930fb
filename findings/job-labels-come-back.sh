#!/usr/bin/env bash
# The labels of a Job's own metadata cannot be emptied: an update that removes the last one is answered with those of its pod template.
#
# A controller that goes by a label of the Job (the queue that it waits in, for example), and whose label stands in the template too, takes
# such a Job up again as soon as the label is removed. With any other label left, the removed one stays away.
#
# Installs etcd and kube-apiserver from their Go modules in a temporary folder (minutes, some GB of build cache), runs both on the loopback
# interface and asks with curl. Needs go, curl, openssl and jq.
set -euo pipefail

ETCD=v3.6.16
KUBERNETES=v1.36.3
STAGING=v0.36.3

folder=$(mktemp -d)
pids=()
end() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    chmod -R u+w "$folder"
    rm -rf "$folder"
}
trap end EXIT

echo "building etcd $ETCD and kube-apiserver $KUBERNETES"
mkdir "$folder/etcd" "$folder/kube"
(
    cd "$folder/etcd"
    go mod init example.com/etcd
    go get "go.etcd.io/etcd/server/v3@$ETCD"
    CGO_ENABLED=0 go build -trimpath -mod=mod -o "$folder/bin-etcd" go.etcd.io/etcd/server/v3
) >"$folder/log" 2>&1 || { tail -20 "$folder/log"; exit 1; }
(
    cd "$folder/kube"
    go mod init example.com/kube
    # The module names its staging modules as folders of its repository: each is published with a version of its own.
    file=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | jq -r .GoMod)
    go mod edit -json "$file" | jq -r '.Replace[] | select(.New.Path | startswith("./staging")) | .Old.Path' |
        while read -r module; do go mod edit -replace "$module=$module@$STAGING"; done
    go get "k8s.io/kubernetes/cmd/kube-apiserver@$KUBERNETES"
    CGO_ENABLED=0 go build -trimpath -mod=mod -o "$folder/bin-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
) >"$folder/log" 2>&1 || { tail -20 "$folder/log"; exit 1; }

free() { # free: a port of the loopback interface where nothing listens
    local port
    while port=$((20000 + RANDOM % 20000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}
client=$(free) peer=$(free) secure=$(free)
"$folder/bin-etcd" --data-dir "$folder/data" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
    >"$folder/etcd.log" 2>&1 &
pids+=($!)
openssl genrsa -out "$folder/sa.key" 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,\"system:masters\"" >"$folder/tokens.csv"
"$folder/bin-apiserver" --etcd-servers "http://127.0.0.1:$client" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$secure" \
    --cert-dir "$folder/pki" --token-auth-file "$folder/tokens.csv" --authorization-mode RBAC --endpoint-reconciler-type none \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$folder/sa.key" --service-account-signing-key-file "$folder/sa.key" \
    --disable-admission-plugins ServiceAccount --service-cluster-ip-range 10.96.0.0/16 >"$folder/apiserver.log" 2>&1 &
pids+=($!)

api() { # api METHOD PATH [BODY] [TYPE]
    curl -sk -X "$1" -H "Authorization: Bearer $token" -H "Content-Type: ${4:-application/json}" ${3:+--data "$3"} "https://127.0.0.1:$secure$2"
}
for _ in $(seq 120); do
    [ "$(api GET /readyz || true)" = ok ] && [ "$(api GET /api/v1/namespaces/default | jq -r .kind)" = Namespace ] && break
    sleep 1
done
echo "kube-apiserver $KUBERNETES answers"

jobs=/apis/batch/v1/namespaces/default/jobs
job='{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","labels":{"queue":"nlp"}},"spec":{"suspend":true,"template":{
  "metadata":{"labels":{"queue":"nlp","app":"train"}},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"train"}]}}}}'
labels() { jq -c '.metadata.labels // {}'; }
merge=application/merge-patch+json

echo "made with one label, other labels in its template: $(api POST "$jobs" "$job" | labels)"
removed=$(api PATCH "$jobs/train" '{"metadata":{"labels":{"queue":null}}}' "$merge" | labels)
echo "its only label removed:                            $removed"
stored=$(api GET "$jobs/train" | labels)
echo "read again:                                        $stored"
api PATCH "$jobs/train" '{"metadata":{"labels":{"other":"x"}}}' "$merge" >/dev/null
others=$(api GET "$jobs/train" | jq -c '.metadata.labels | keys')
api PATCH "$jobs/train" '{"metadata":{"labels":{"queue":null}}}' "$merge" >/dev/null
kept=$(api GET "$jobs/train" | jq -c '.metadata.labels | has("queue")')
echo "with another label beside ($others), the same removal leaves the label: $kept"

[ "$(jq -r .queue <<<"$removed")" = nlp ] && [ "$(jq -r .queue <<<"$stored")" = nlp ] && [ "$kept" = false ] ||
    { echo "it is not so any more"; exit 1; }
echo "as found: the removed label came back from the pod template"
