{{- define "cotenant.name" -}}
{{- $both := printf "%s-%s" .Release.Name .Chart.Name }}
{{- ternary .Release.Name $both (contains .Chart.Name .Release.Name) | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "cotenant.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cotenant.labels" -}}
{{ include "cotenant.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "cotenant.metadata" -}}
name: {{ include "cotenant.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "cotenant.labels" . | nindent 2 }}
{{- end }}

{{- define "cotenant.account" -}}
{{ .Values.serviceAccount.name | default (ternary (include "cotenant.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "cotenant.secret" -}}
{{ .Values.serve.existingSecret | default (printf "%s-token" (include "cotenant.name" .)) }}
{{- end }}

{{- define "cotenant.priority" -}}
{{ .Values.priorityClassName | default (ternary (include "cotenant.name" .) "" .Values.priorityClass.create) }}
{{- end }}

{{- define "cotenant.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* Where runtimes keep the state of their containers, by the value that mounts it. */}}
{{- define "cotenant.runtimes" -}}
containerd: /run/containerd/io.containerd.runtime.v2.task
k3s: /run/k3s/containerd/io.containerd.runtime.v2.task
crio: /run/containers/storage
{{- end }}
