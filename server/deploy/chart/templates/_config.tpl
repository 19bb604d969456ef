{{/* Configuration file of the server, as YAML. The namespace comes from POD_NAMESPACE. */}}
{{- define "tributary.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "apiVersion" "tributary.dev/v1alpha1" -}}
{{- $_ := set $config "kind" "Config" -}}
{{- $_ := set $config "clusterId" .Values.clusterId -}}
{{- with .Values.revision -}}{{- $_ := set $config "revision" . -}}{{- end -}}
{{- /* A directory of the server's own: that of the volume belongs to root. */ -}}
{{- $_ := set $config "stateDir" "/var/lib/tributary/state" -}}
{{- $_ := set $config "registries" (include "tributary.registries" . | fromYamlArray) -}}
{{- $tls := dict "certFile" "/etc/tributary/tls/tls.crt" "keyFile" "/etc/tributary/tls/tls.key" -}}
{{- with .Values.xds.tls.clientCa -}}
{{- if .enabled -}}{{- $_ := set $tls "clientCaFile" (printf "/etc/tributary/tls/%s" .key) -}}{{- end -}}
{{- end -}}
{{- $xds := dict "listen" (printf "%s:%d" .Values.listenAddress (int .Values.xds.port)) "tls" $tls -}}
{{- $_ := set $xds "maxConnectionAge" .Values.xds.maxConnectionAge -}}
{{- $_ := set $xds "maxConnections" (int .Values.xds.maxConnections) -}}
{{- if and .Values.xds.tokens.enabled .Values.kubernetes.enabled -}}
{{- $_ := set $xds "tokens" (dict "audiences" .Values.xds.tokens.audiences) -}}
{{- end -}}
{{- $_ := set $config "xds" $xds -}}
{{- $admin := dict "listen" (printf "127.0.0.1:%d" (int .Values.admin.port)) -}}
{{- if .Values.admin.remote.enabled -}}{{- $_ := set $admin "remote" (include "tributary.remoteAdmin" . | fromYaml) -}}{{- end -}}
{{- if .Values.admin.profile -}}{{- $_ := set $admin "profile" true -}}{{- end -}}
{{- $_ := set $config "admin" $admin -}}
{{- $_ := set $config "health" (dict "listen" (printf "%s:%d" .Values.listenAddress (int .Values.health.port))) -}}
{{- $_ := set $config "drain" (dict "timeout" (printf "%ds" (int .Values.drainSeconds))) -}}
{{- $config | toYaml -}}
{{- end -}}

{{/* Listener for operators elsewhere. */}}
{{- define "tributary.remoteAdmin" -}}
{{- $folder := "/etc/tributary/admin-tls" -}}
{{- $remote := .Values.admin.remote -}}
{{- $tls := dict "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder) -}}
{{- with $remote.tls.clientCa -}}
{{- if .enabled -}}{{- $_ := set $tls "clientCaFile" (printf "%s/%s" $folder .key) -}}{{- end -}}
{{- end -}}
{{- $out := dict "listen" (printf "%s:%d" .Values.listenAddress (int $remote.port)) "tls" $tls -}}
{{- if include "tributary.adminTokens" . -}}{{- $_ := set $out "tokens" (dict "audiences" $remote.tokens.audiences) -}}{{- end -}}
{{- range $names := (list "viewers" "operators") -}}
{{- with index $remote $names -}}{{- $_ := set $out $names . -}}{{- end -}}
{{- end -}}
{{- $out | toYaml -}}
{{- end -}}

{{/* Not empty if operators prove themselves by tokens, which the cluster of the pods reviews. */}}
{{- define "tributary.adminTokens" -}}
{{- if and .Values.admin.remote.enabled .Values.admin.remote.tokens.enabled .Values.kubernetes.enabled -}}true{{- end -}}
{{- end -}}

{{/* Registries: the cluster of the pods, then the further ones, whose Secrets are mounted as files. */}}
{{- define "tributary.registries" -}}
{{- $all := list -}}
{{- if .Values.kubernetes.enabled -}}
{{- $all = append $all (merge (dict "kind" "kubernetes") .Values.kubernetes.options) -}}
{{- end -}}
{{- range $i, $one := .Values.registries -}}
{{- $folder := printf "/etc/tributary/registries/%d" $i -}}
{{- $registry := omit (deepCopy $one) "tokenSecret" "caSecret" "certSecret" -}}
{{- if $one.tokenSecret -}}{{- $_ := set $registry "tokenFile" (printf "%s/token" $folder) -}}{{- end -}}
{{- $tls := deepCopy ($one.tls | default dict) -}}
{{- if $one.caSecret -}}{{- $_ := set $tls "caFile" (printf "%s/ca.crt" $folder) -}}{{- end -}}
{{- if $one.certSecret -}}
{{- $_ := set $tls "certFile" (printf "%s/tls.crt" $folder) -}}
{{- $_ := set $tls "keyFile" (printf "%s/tls.key" $folder) -}}
{{- end -}}
{{- if $tls -}}{{- $_ := set $registry "tls" $tls -}}{{- end -}}
{{- $all = append $all $registry -}}
{{- end -}}
{{- if not $all -}}{{- fail "no registry is configured; set kubernetes.enabled or add one to registries" -}}{{- end -}}
{{- $all | toYaml -}}
{{- end -}}

{{/* The part of the configuration that a running server does not apply: a change of it restarts the pods. */}}
{{- define "tributary.restartHash" -}}
{{- $config := include "tributary.config" . | fromYaml -}}
{{- $level := dict "level" "" -}}
{{- $log := merge $level (omit ($config.log | default dict) "level") -}}
{{- $remotes := omit ($config.remotes | default dict) "clusters" -}}
{{- $fixed := omit $config "registries" "settings" "federatedServices" "merge" "metrics" "log" "remotes" -}}
{{- printf "%s%s%s" ($fixed | toJson) ($remotes | toJson) ($log | toJson) | sha256sum -}}
{{- end -}}

{{/* Sources of the projected volume of one registry, or nothing. */}}
{{- define "tributary.registrySecrets" -}}
{{- with .tokenSecret }}
- secret: {name: {{ .name }}, items: [{key: {{ .key | default "token" }}, path: token}]}
{{- end }}
{{- with .caSecret }}
- secret: {name: {{ .name }}, items: [{key: {{ .key | default "ca.crt" }}, path: ca.crt}]}
{{- end }}
{{- with .certSecret }}
- secret: {name: {{ .name }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
{{- end }}
{{- end -}}
