{{- define "narthex.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "narthex.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "narthex.name" .) .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name (include "narthex.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "narthex.selectorLabels" -}}
app.kubernetes.io/name: {{ include "narthex.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "narthex.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "narthex.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "narthex.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "narthex.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "narthex.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "narthex.scheme" -}}
{{- if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* The same for gateway, writer and migration: a job that lacks a setting or secret of the pods fails, or migrates another database. */}}
{{- define "narthex.env" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: { name: {{ .Values.database.existingSecret }}, key: {{ .Values.database.key }} }
{{- if .Values.redis.existingSecret }}
- name: REDIS_URL
  valueFrom:
    secretKeyRef: { name: {{ .Values.redis.existingSecret }}, key: {{ .Values.redis.key }} }
{{- end }}
- name: NARTHEX_SECRET_KEY
  valueFrom:
    secretKeyRef: { name: {{ .Values.secretKey.existingSecret }}, key: {{ .Values.secretKey.key }} }
- name: NARTHEX_HOME
  value: /data/home
- name: NARTHEX_HOST
  value: "0.0.0.0"
- name: NARTHEX_PORT
  value: "8787"
- name: NARTHEX_WORKERS
  value: {{ .Values.workers | quote }}
- name: NARTHEX_DRAIN_TIMEOUT_S
  value: {{ .Values.drain.timeoutSeconds | quote }}
{{- if .Values.admin.enabled }}
- name: NARTHEX_ADMIN_PORT
  value: {{ .Values.admin.port | quote }}
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: NARTHEX_TLS_CERT
  value: /etc/narthex/tls/tls.crt
- name: NARTHEX_TLS_KEY
  value: /etc/narthex/tls/tls.key
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "narthex.volumeMounts" -}}
- name: home
  mountPath: /data
- name: tmp
  mountPath: /tmp
{{- if .Values.tls.existingSecret }}
- name: tls
  mountPath: /etc/narthex/tls
  readOnly: true
{{- end }}
{{- range .Values.credentialSecrets }}
- name: credentials-{{ . }}
  mountPath: /etc/narthex/credentials/{{ . }}
  readOnly: true
{{- end }}
{{- end }}

{{- define "narthex.volumes" -}}
- name: tmp
  emptyDir: { sizeLimit: 64Mi }
{{- if .Values.tls.existingSecret }}
- name: tls
  secret: { secretName: {{ .Values.tls.existingSecret }}, defaultMode: 288 }
{{- end }}
{{- range .Values.credentialSecrets }}
- name: credentials-{{ . }}
  secret: { secretName: {{ . }}, defaultMode: 288 }
{{- end }}
{{- end }}

{{- define "narthex.container" -}}
image: {{ include "narthex.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
env:
  {{- include "narthex.env" . | nindent 2 }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "narthex.volumeMounts" . | nindent 2 }}
{{- end }}
