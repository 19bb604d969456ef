{{/* Rights of the configuration: the same as `tributary rbac print` prints, which a test compares. Each helper prints rules. */}}

{{/* Rules of the objects of services, everywhere or in one namespace. */}}
{{- define "tributary.rules.objects" -}}
{{- $writes := .Values.config.writes | default list -}}
{{- $mcs := .Values.kubernetes.options.mcs | default dict -}}
{{- $exports := has "serviceExports" $writes -}}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [""], resources: [services], verbs: [{{ if $exports }}get, {{ end }}list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [gateway.networking.k8s.io], resources: [gateways], verbs: [list, watch]}
{{- if or $exports $mcs.discovery }}
- {apiGroups: [{{ $mcs.group | default "multicluster.x-k8s.io" }}], resources: [serviceexports], verbs: [{{ if $exports }}create, {{ end }}list, watch]}
{{- end }}
{{- if and $mcs.discovery $mcs.host }}
- {apiGroups: [{{ $mcs.group | default "multicluster.x-k8s.io" }}], resources: [serviceimports], verbs: [list, watch]}
{{- end }}
{{- range (list "destinationrules" "envoyfilters" "gateways" "proxyconfigs" "serviceentries" "sidecars" "virtualservices" "workloadentries" "workloadgroups") }}
- {apiGroups: [networking.istio.io], resources: [{{ . }}], verbs: [list, watch]}
{{- end }}
{{- range (list "authorizationpolicies" "peerauthentications" "requestauthentications") }}
- {apiGroups: [security.istio.io], resources: [{{ . }}], verbs: [list, watch]}
{{- end }}
- {apiGroups: [extensions.istio.io], resources: [wasmplugins], verbs: [list, watch]}
- {apiGroups: [telemetry.istio.io], resources: [telemetries], verbs: [list, watch]}
{{- if has "addresses" $writes }}
- {apiGroups: [networking.istio.io], resources: [serviceentries/status], verbs: [patch]}
{{- end }}
{{- end -}}

{{/* Rules of the whole cluster. With named namespaces, Namespaces are read by name. */}}
{{- define "tributary.rules.cluster" -}}
- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
{{- with .Values.kubernetes.options.namespaces }}
{{- range (concat . (list "istio-system" $.Release.Namespace) | uniq | sortAlpha) }}
- {apiGroups: [""], resources: [namespaces], resourceNames: [{{ . }}], verbs: [list, watch]}
{{- end }}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [list]}
{{- else }}
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
{{ include "tributary.rules.objects" $ }}
{{- end }}
{{- if or .Values.xds.tokens.enabled (include "tributary.adminTokens" .) }}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
{{- end }}
{{- if include "tributary.adminTokens" . }}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
{{- end }}
{{- end -}}

{{/* Rules of the namespace of the release; empty if it needs none. */}}
{{- define "tributary.rules.system" -}}
{{- $writes := .Values.config.writes | default list -}}
{{- if ne (.Values.kubernetes.options.meshConfig | default "cluster") "none" }}
- {apiGroups: [""], resources: [configmaps], resourceNames: [{{ eq (default "default" .Values.revision) "default" | ternary "istio" (printf "istio-%s" .Values.revision) }}], verbs: [list, watch]}
{{- end }}
{{- $remotes := eq ((.Values.config.remotes | default dict).secrets | default "auto") "on" }}
{{- $credentials := has "credentials" $writes }}
{{- if or $remotes $credentials }}
- {apiGroups: [""], resources: [secrets], verbs: [{{ concat ($credentials | ternary (list "get" "patch") list) ($remotes | ternary (list "list" "watch") list) | join ", " }}]}
{{- end }}
{{- $leases := list }}
{{- range $write, $lease := (dict "addresses" "addresses" "credentials" "credentials" "serviceExports" "exports") }}
{{- if has $write $writes }}{{ $leases = append $leases $lease }}{{ end }}
{{- end }}
{{- if $leases }}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
{{- end }}
{{- range $leases }}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [tributary-{{ . }}{{ with $.Values.revision }}-{{ . }}{{ end }}], verbs: [get, update]}
{{- end }}
{{- end -}}

{{/* One role and its binding. Takes root, namespace ("" for the cluster) and rules. Outside of the namespace of the release, names have
that namespace: roles of other releases are there. No name of an object has a colon, so no two pairs give one name. */}}
{{- define "tributary.role" -}}
{{- $kind := empty .namespace | ternary "ClusterRole" "Role" -}}
{{- $name := include "tributary.fullname" .root -}}
{{- if ne .namespace .root.Release.Namespace -}}{{- $name = printf "%s:%s" .root.Release.Namespace $name -}}{{- end -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name | quote }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "tributary.labels" .root | nindent 4 }}
rules:
{{ trim .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name | quote }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "tributary.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $kind }}, name: {{ $name | quote }}}
subjects:
- {kind: ServiceAccount, name: {{ include "tributary.account" .root }}, namespace: {{ .root.Release.Namespace }}}
{{ end -}}
