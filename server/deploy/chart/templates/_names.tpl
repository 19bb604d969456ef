{{/* Names and labels. */}}
{{- define "tributary.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of selectors: they never change, because a StatefulSet's selector cannot. The command line finds pods by the first. */}}
{{- define "tributary.selector" -}}
app.kubernetes.io/name: tributary
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tributary
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "tributary.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tributary.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is empty; name the account that exists, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tributary.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Secrets of the certificates. A release has its own, so that two of one namespace share none. */}}
{{- define "tributary.xdsSecret" -}}
{{- default (printf "%s-xds-tls" (include "tributary.fullname" .)) .Values.xds.tls.secret -}}
{{- end -}}
{{- define "tributary.adminSecret" -}}
{{- default (printf "%s-admin-tls" (include "tributary.fullname" .)) .Values.admin.remote.tls.secret -}}
{{- end -}}

{{/* Names in a certificate, as JSON: of the Services, and of each replica. */}}
{{- define "tributary.dnsNames" -}}
{{- $name := include "tributary.fullname" . -}}
{{- $domain := default "cluster.local" (.Values.config.settings | default dict).domain -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- $names := list $name $service -}}
{{- $replicas := printf "%s-replicas.%s" $name .Release.Namespace -}}
{{- $hosts := list $service $replicas -}}
{{- range until (int .Values.replicas) -}}{{- $hosts = append $hosts (printf "%s-%d.%s" $name . $replicas) -}}{{- end -}}
{{- range $hosts -}}{{- $names = concat $names (list (printf "%s.svc" .) (printf "%s.svc.%s" . $domain)) -}}{{- end -}}
{{- concat $names .Values.certManager.dnsNames | uniq | toJson -}}
{{- end -}}

{{/* Whether the pods need the token of their account: for the API server, or to log in to Consul. */}}
{{- define "tributary.needsToken" -}}
{{- $needs := .Values.kubernetes.enabled -}}
{{- range .Values.registries -}}{{- if .login -}}{{- $needs = true -}}{{- end -}}{{- end -}}
{{- $needs -}}
{{- end -}}
