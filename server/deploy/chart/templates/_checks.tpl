{{/* What values.schema.json cannot express: rules over several values. Every error names its values, and all are reported at once. */}}
{{- define "tributary.checks" -}}
{{- $errors := list -}}
{{- $remote := .Values.admin.remote -}}
{{- $name := include "tributary.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- $errors = append $errors (printf "the name %q is not that of a Service; begin the release's name with a letter, or set fullnameOverride" $name) -}}
{{- end -}}
{{- $errors = concat $errors (include "tributary.checks.ports" . | fromJsonArray) -}}
{{- if $remote.enabled -}}{{- $errors = concat $errors (include "tributary.checks.remote" . | fromJsonArray) -}}{{- end -}}
{{- $errors = concat $errors (include "tributary.checks.volumes" . | fromJsonArray) -}}
{{- $names := list -}}
{{- range .Values.extraEnv -}}
{{- if has .name $names -}}{{- $errors = append $errors (printf "extraEnv names %s twice" .name) -}}{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- with $errors -}}{{- fail (printf "wrong values:\n- %s" (join "\n- " .)) -}}{{- end -}}
{{- end -}}

{{/* Ports of one pod differ. */}}
{{- define "tributary.checks.ports" -}}
{{- $errors := list -}}
{{- $all := list (dict "name" "xds.port" "port" .Values.xds.port) (dict "name" "health.port" "port" .Values.health.port) (dict "name" "admin.port" "port" .Values.admin.port) -}}
{{- if .Values.admin.remote.enabled -}}{{- $all = append $all (dict "name" "admin.remote.port" "port" .Values.admin.remote.port) -}}{{- end -}}
{{- $seen := dict -}}
{{- range $all -}}
{{- $port := .port | int | toString -}}
{{- if hasKey $seen $port -}}
{{- $errors = append $errors (printf "%s and %s are both %s" (get $seen $port) .name $port) -}}
{{- end -}}
{{- $_ := set $seen $port .name -}}
{{- end -}}
{{- $errors | toJson -}}
{{- end -}}

{{/* Each operator proves itself in one of two ways, and by nothing that opens xDS. */}}
{{- define "tributary.checks.remote" -}}
{{- $errors := list -}}
{{- $remote := .Values.admin.remote -}}
{{- $names := concat $remote.viewers $remote.operators -}}
{{- if and $names (not $remote.tls.clientCa.enabled) -}}
{{- $errors = append $errors "admin.remote.viewers and operators list certificates; set admin.remote.tls.clientCa.enabled" -}}
{{- end -}}
{{- if and $remote.tls.clientCa.enabled (not $names) -}}
{{- $errors = append $errors "admin.remote.tls.clientCa has no effect without names; list some in admin.remote.viewers or operators" -}}
{{- end -}}
{{- if and (not $names) (not (include "tributary.adminTokens" .)) -}}
{{- $errors = append $errors "admin.remote admits no operator; set admin.remote.tokens.enabled with kubernetes.enabled, or tls.clientCa with viewers or operators" -}}
{{- end -}}
{{- if and .Values.xds.tokens.enabled $remote.tokens.enabled -}}
{{- range $remote.tokens.audiences -}}
{{- if has . $.Values.xds.tokens.audiences -}}
{{- $errors = append $errors (printf "admin.remote.tokens.audiences has %s of xds.tokens.audiences; tokens of workloads must not open the console" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.certManager.enabled (eq (include "tributary.xdsSecret" .) (include "tributary.adminSecret" .)) -}}
{{- $errors = append $errors "xds.tls.secret and admin.remote.tls.secret are equal; with certManager each has its own certificate" -}}
{{- end -}}
{{- $errors | toJson -}}
{{- end -}}

{{/* Further volumes do not replace those of the chart. */}}
{{- define "tributary.checks.volumes" -}}
{{- $errors := list -}}
{{- $own := list "config" "tls" "admin-tls" "state" -}}
{{- $names := list -}}
{{- range .Values.extraVolumes -}}
{{- if or (has .name $own) (hasPrefix "registry-" .name) -}}
{{- $errors = append $errors (printf "extraVolumes: %s is a volume of the chart; choose another name" .name) -}}
{{- else if has .name $names -}}
{{- $errors = append $errors (printf "extraVolumes names %s twice" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $paths := list -}}
{{- range .Values.extraVolumeMounts -}}
{{- $path := clean .mountPath -}}
{{- if not (has .name $names) -}}
{{- $errors = append $errors (printf "extraVolumeMounts: %s is not in extraVolumes" .name) -}}
{{- end -}}
{{- if regexMatch "^(/|/etc|/etc/tributary(/(config|tls|admin-tls|registries)(/.*)?)?|/var|/var/lib|/var/lib/tributary(/.*)?|/tributary)$" $path -}}
{{- $errors = append $errors (printf "extraVolumeMounts: %s holds files of the server; mount %s elsewhere" $path .name) -}}
{{- else if has $path $paths -}}
{{- $errors = append $errors (printf "extraVolumeMounts names %s twice" $path) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- end -}}
{{- $errors | toJson -}}
{{- end -}}
