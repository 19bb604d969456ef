{{/* Pod of a replica. */}}
{{- define "tributary.podSpec" -}}
serviceAccountName: {{ include "tributary.account" . }}
automountServiceAccountToken: {{ include "tributary.needsToken" . }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
# preStop, the drain, and time to write the journal.
terminationGracePeriodSeconds: {{ add .Values.preStopSeconds .Values.drainSeconds 15 }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
- name: tributary
  image: {{ include "tributary.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [serve, --config, /etc/tributary/config/tributary.yaml]
  env:
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  ports:
  - {name: xds, containerPort: {{ .Values.xds.port }}, protocol: TCP}
  - {name: health, containerPort: {{ .Values.health.port }}, protocol: TCP}
  # Loopback only: for port-forwards.
  - {name: admin, containerPort: {{ .Values.admin.port }}, protocol: TCP}
  {{- if .Values.admin.remote.enabled }}
  - {name: admin-remote, containerPort: {{ .Values.admin.remote.port }}, protocol: TCP}
  {{- end }}
  # A long restore of the journal is no reason to restart.
  startupProbe:
    httpGet: {path: /livez, port: health}
    periodSeconds: 2
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /livez, port: health}
    periodSeconds: 10
    failureThreshold: 6
  readinessProbe:
    httpGet: {path: /readyz, port: health}
    periodSeconds: 5
    failureThreshold: 2
  {{- with .Values.preStopSeconds }}
  lifecycle: {preStop: {sleep: {seconds: {{ . }}}}}
  {{- end }}
  {{- with .Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
  - {name: config, mountPath: /etc/tributary/config, readOnly: true}
  - {name: tls, mountPath: /etc/tributary/tls, readOnly: true}
  {{- if .Values.admin.remote.enabled }}
  - {name: admin-tls, mountPath: /etc/tributary/admin-tls, readOnly: true}
  {{- end }}
  - {name: state, mountPath: /var/lib/tributary}
  {{- range $i, $one := .Values.registries }}
  {{- if trim (include "tributary.registrySecrets" $one) }}
  - {name: registry-{{ $i }}, mountPath: /etc/tributary/registries/{{ $i }}, readOnly: true}
  {{- end }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
- name: config
  configMap: {name: {{ include "tributary.fullname" . }}}
- name: tls
  secret: {secretName: {{ include "tributary.xdsSecret" . }}, defaultMode: 0440}
{{- if .Values.admin.remote.enabled }}
- name: admin-tls
  secret: {secretName: {{ include "tributary.adminSecret" . }}, defaultMode: 0440}
{{- end }}
{{- if eq .Values.state.kind "emptyDir" }}
- name: state
  emptyDir: {sizeLimit: {{ .Values.state.size }}}
{{- end }}
{{- range $i, $one := .Values.registries }}
{{- with trim (include "tributary.registrySecrets" $one) }}
- name: registry-{{ $i }}
  projected:
    defaultMode: 0440
    sources:
    {{- . | nindent 4 }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
topologySpreadConstraints:
{{- with .Values.topologySpreadConstraints }}
{{ toYaml . }}
{{- else }}
{{- range (list "kubernetes.io/hostname" "topology.kubernetes.io/zone") }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "tributary.selector" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- range $field := (list "nodeSelector" "tolerations" "affinity") }}
{{- with index $.Values $field }}
{{ $field }}:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- end -}}
