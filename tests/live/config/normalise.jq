# Makes a recording the same at every run: what the server makes up becomes a
# placeholder.

def text:
  gsub("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"; "<uid>")
  | gsub("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z"; "<time>")
  | gsub("10\\.244\\.[0-9]+\\.[0-9]+(?![0-9/])"; "<pod-ip>")
  | gsub("nvidia-dcgm-exporter-[a-z0-9]{5}(?![a-z0-9])"; "nvidia-dcgm-exporter-<suffix>")
  | gsub("front-[a-z0-9]{8,10}(?![a-z0-9])"; "front-<hash>")
  | gsub("chat-[a-z0-9]{8,10}-[a-z0-9]{5}(?![a-z0-9])"; "chat-<hash>-<suffix>")
  | gsub("waiting\\.[0-9a-f]{16}"; "waiting.<suffix>")
  | gsub("-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n"; "<certificate>")
  | gsub("hash=[0-9A-F]+"; "hash=<hash>")
  | gsub("continue=ey[A-Za-z0-9_=-]+"; "continue=<continue>")
  | gsub("resourceVersion=[0-9]{3,7}(?![0-9])"; "resourceVersion=<rv>")
  | gsub("resource version: (?<old>[0-9]+) \\([0-9]+\\)"; "resource version: \(.old) (<rv>)")
  | gsub("Too large resource version: (?<new>[0-9]+), current: [0-9]+"; "Too large resource version: \(.new), current: <rv>");

# The columns of a table that tell an age.
def table:
  if .kind == "Table" and .columnDefinitions and (.columnDefinitions | length) > 0 then
    ([.columnDefinitions[].name | IN("Age", "Last Seen", "First Seen", "Duration")]) as $aged
    | .rows |= map(.cells |= [range(length) as $i | if $aged[$i] and .[$i] != "<unknown>" and .[$i] != "" then "<age>" else .[$i] end])
  else . end;

# The same, in the events of a watch, of which only the first has the columns.
def watched:
  if type == "array" and length > 0 and .[0].object?.kind? == "Table" then
    (.[0].object.columnDefinitions // []) as $columns
    | map(if (.object.columnDefinitions // [] | length) == 0 and .object.kind == "Table"
        then .object.columnDefinitions = $columns | .object |= table | .object.columnDefinitions = [] else .object |= table end)
  else . end;

def object:
  del(.managedFields)
  | if (.uid? | type) == "string" and .uid != "" and (.uid | test("^live-") | not) then .uid = "<uid>" else . end
  | if (.resourceVersion? | type) == "string" and (.resourceVersion | test("^[0-9]{2,}$")) then .resourceVersion = "<rv>" else . end
  | if (.continue? | type) == "string" and .continue != "" then .continue = "<continue>" else . end
  | if (.generateName? | type) == "string" and (.name? | type) == "string" then .name = .generateName + "<suffix>" else . end
  | if .reason? == "FailedScheduling" or .reason? == "Scheduled" then
      .metadata.name |= (. // "" | sub("\\.[0-9a-f]+$"; ".<suffix>"))
      | if (.series? | type) == "object" then .series.count = "<count>" else . end
      | if .count? then .count = "<count>" else . end
    else . end
  | if (.resourceRules? | type) == "array" then .resourceRules |= sort_by(tostring) | .nonResourceRules |= sort_by(tostring) else . end
  | if (.columnDefinitions? | type) == "array" then .columnDefinitions |= map(.description = "<text>") else . end
  | if (.reason? | type) == "string" then .reason |= sub("^RBAC: allowed by .*"; "RBAC: allowed by <rule>") else . end
  | if .major? and .gitVersion? then with_entries(.value = "<version>") else . end;

map(
  .response.body |= (watched | walk(if type == "object" then object | table elif type == "string" then text else . end))
  | .request.path |= text
  | if .response.headers then .response.headers |= map_values(text) else . end
)
