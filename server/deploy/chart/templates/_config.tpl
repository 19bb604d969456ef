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
{{- $_ := set $config "admin" (dict "listen" (printf "127.0.0.1:%d" (int .Values.admin.port))) -}}
{{- $_ := set $config "health" (dict "listen" (printf "%s:%d" .Values.listenAddress (int .Values.health.port))) -}}
{{- $_ := set $config "drain" (dict "timeout" (printf "%ds" (int .Values.drainSeconds))) -}}
{{- $config | toYaml -}}
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
{{- $fixed := omit $config "registries" "settings" "federatedServices" "merge" "log" -}}
{{- printf "%s%s" ($fixed | toJson) ($log | toJson) | sha256sum -}}
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
