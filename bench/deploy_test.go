package bench

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// What manifests may have: the fields of batch/v1 and core/v1 of Kubernetes 1.34 that ours use. Other fields are
// errors, so that a wrong word does not pass. The manifests were read by k8s.io/api 0.34.1 as well, strictly, when they
// were written.
type (
	manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name                string
			Labels, Annotations map[string]string
		}
		Spec struct {
			CompletionMode          string `yaml:"completionMode"`
			Completions             int
			Parallelism             int
			BackoffLimit            *int `yaml:"backoffLimit"`
			Suspend                 bool
			TTLSecondsAfterFinished int `yaml:"ttlSecondsAfterFinished"`
			Template                struct {
				Metadata struct{ Labels map[string]string }
				Spec     pod
			}
			AccessModes []string `yaml:"accessModes"`
			Resources   resources
		}
	}
	resources struct{ Requests, Limits map[string]string }
	pod       struct {
		RestartPolicy             string `yaml:"restartPolicy"`
		TopologySpreadConstraints []struct {
			MaxSkew           int    `yaml:"maxSkew"`
			TopologyKey       string `yaml:"topologyKey"`
			WhenUnsatisfiable string `yaml:"whenUnsatisfiable"`
			LabelSelector     struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"labelSelector"`
		} `yaml:"topologySpreadConstraints"`
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
		Volumes        []struct {
			Name                  string
			PersistentVolumeClaim struct {
				ClaimName string `yaml:"claimName"`
			} `yaml:"persistentVolumeClaim"`
		}
	}
	container struct {
		Name, Image   string
		Command, Args []string
		Env           []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
				SecretKeyRef struct {
					Name, Key string
					Optional  bool
				} `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Resources       resources
		SecurityContext struct {
			Capabilities struct{ Add []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	kustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		NameSuffix yaml.Node `yaml:"nameSuffix"`
		Resources  []string
		Images     []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
		Replacements []struct {
			Source struct {
				Kind, Name string
				FieldPath  string `yaml:"fieldPath"`
			}
			Targets []struct {
				Select     struct{ Kind, Name string }
				FieldPaths []string `yaml:"fieldPaths"`
			}
		}
	}
	compose struct {
		Shard    service `yaml:"x-shard"`
		Services map[string]service
	}
	service struct {
		Image      string
		WorkingDir string `yaml:"working_dir"`
		Command    []string
		Volumes    []string
		DependsOn  map[string]struct{ Condition string } `yaml:"depends_on"`
	}
)

// readManifest reads a file of scripts/deploy, and refuses what its schema does not have.
func readManifest[T any](t *testing.T, name string) (v T) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(readFile(t, filepath.Join("..", "scripts", "deploy", name))))
	d.KnownFields(true)
	must.Do(t, d.Decode(&v), name)
	return v
}

// TestManifests: the manifests have the fields that they should, and what they name is there.
func TestManifests(t *testing.T) {
	t.Parallel()
	job, merge, volume := readManifest[manifest](t, "job.yaml"), readManifest[manifest](t, "merge.yaml"), readManifest[manifest](t, "volume.yaml")
	s := &job.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || s.CompletionMode != "Indexed" || s.Completions != s.Parallelism || s.BackoffLimit == nil || *s.BackoffLimit != 0 || s.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("%+v", s)
	}
	c, text := s.Template.Spec.Containers[0], string(readFile(t, filepath.Join("..", "scripts", "deploy", "job.yaml")))
	if c.Env[0].Name != "FASTREPLAY_SHARDS" || c.Env[0].Value != strconv.Itoa(s.Completions) {
		t.Errorf("%d completions, environment %+v", s.Completions, c.Env)
	}
	if secret := c.Env[1]; secret.Name != "FASTREPLAY_SHARD_SECRET" || !secret.ValueFrom.SecretKeyRef.Optional || !strings.Contains(text, fmt.Sprintf("kubectl create secret generic %s --from-literal=%s=",
		secret.ValueFrom.SecretKeyRef.Name, secret.ValueFrom.SecretKeyRef.Key)) {
		t.Errorf("secret %+v", secret)
	}
	if volume.Spec.AccessModes[0] != "ReadWriteMany" || volume.Metadata.Name != s.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName ||
		volume.Metadata.Name != merge.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName {
		t.Errorf("volume %+v", volume)
	}
	if env := merge.Spec.Template.Spec.Containers[0].Env[0]; env.Name != "RUN" || env.Value != job.Metadata.Name || !merge.Spec.Suspend {
		t.Errorf("%+v", merge)
	}
	k := readManifest[kustomization](t, "kustomization.yaml")
	expect.Equal(t, k.NameSuffix.Tag, "!!str", "nameSuffix") // kubectl refuses a number
	for _, name := range k.Resources {
		readFile(t, filepath.Join("..", "scripts", "deploy", name))
	}
	for _, r := range k.Replacements {
		for _, name := range []string{r.Source.Name, r.Targets[0].Select.Name} {
			if name != job.Metadata.Name && name != merge.Metadata.Name {
				t.Errorf("kustomization.yaml names a Job %q", name)
			}
		}
	}
	all := readManifest[compose](t, "compose.yaml")
	for name, s := range all.Services {
		if s.Image != "fastreplay" || len(s.Command) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		for other, on := range s.DependsOn {
			if _, known := all.Services[other]; !known || on.Condition == "" {
				t.Errorf("%s depends on %q", name, other)
			}
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		if out, err := exec.Command(bash, "-n", filepath.Join("..", "scripts", "deploy", "slurm.sh")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// TestManifestsRun: the command lines of the manifests, with their variables put in as the kubelet does, make a run and
// its merge.
func TestManifestsRun(t *testing.T) {
	t.Parallel()
	job, merge := readManifest[manifest](t, "job.yaml"), readManifest[manifest](t, "merge.yaml")
	m, trace := startMock(t), steady(t, 100, 100, 3)
	var work string
	expand := func(args []string, index int) (out []string) {
		r := strings.NewReplacer("$(RUN)", job.Metadata.Name, "$(JOB_COMPLETION_INDEX)", strconv.Itoa(index), "/work/trace.jsonl.zst", trace, "/work/", work+"/", "http://llm:8000", m.url)
		for _, a := range args {
			out = append(out, r.Replace(a))
		}
		return out
	}
	quickEnough(t, func() string {
		work = t.TempDir()
		var all []*process
		for i := range 2 {
			env := []string{"env", "FASTREPLAY_SHARDS=2", "JOB_COMPLETION_INDEX=" + strconv.Itoa(i)}
			all = append(all, start(t, env, append(expand(job.Spec.Template.Spec.Containers[0].Args, i), accepted...)...))
		}
		return allStarted(t, all, 0)
	})
	succeeds(t, expand(merge.Spec.Template.Spec.Containers[0].Args, 0)...)
	if r := readResults(t, filepath.Join(work, "replay", "all")); len(r.lines) != 100 || r.summary.Requests.OK != 100 {
		t.Errorf("%+v", r.summary.Requests)
	}
}

// chart renders a template of the Helm chart as helm does: with its language, and those of its functions that ours use.
func chart(t *testing.T, name string, values map[string]any) (m manifest, some bool) {
	t.Helper()
	text := readFile(t, filepath.Join("..", "scripts", "deploy", "helm", "templates", name))
	page := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"int":   func(v any) int { return must.Have(strconv.Atoi(fmt.Sprint(v)))(t) },
		"quote": func(v any) string { return strconv.Quote(fmt.Sprint(v)) },
		"toYaml": func(v any) string {
			return strings.TrimSpace(string(must.Have(yaml.Marshal(v))(t)))
		},
		"omit": func(values map[string]any, names ...string) map[string]any {
			values = maps.Clone(values)
			maps.DeleteFunc(values, func(name string, _ any) bool { return slices.Contains(names, name) })
			return values
		},
		"nindent": func(n int, text string) string {
			indent := "\n" + strings.Repeat(" ", n)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
	})
	var out bytes.Buffer
	must.Do(t, must.Have(page.Parse(string(text)))(t).Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "run-7"}}))
	if strings.TrimSpace(out.String()) == "" {
		return m, false
	}
	d := yaml.NewDecoder(&out)
	d.KnownFields(true)
	must.Do(t, d.Decode(&m), name)
	return m, true
}

// TestChart: the Helm chart makes one pod with its defaults, and with three shards what job.yaml and merge.yaml make.
func TestChart(t *testing.T) {
	t.Parallel()
	var values map[string]any
	must.Do(t, yaml.Unmarshal(readFile(t, filepath.Join("..", "scripts", "deploy", "helm", "values.yaml")), &values))
	one, _ := chart(t, "job.yaml", values)
	expect.Equal(t, strings.Join(one.Spec.Template.Spec.Containers[0].Args, " "), "--trace=/work/trace.jsonl.zst --url=http://llm:8000 --output=/work/$(RUN)/all --progress=line")
	for _, name := range []string{"after.yaml", "volume.yaml"} {
		if _, some := chart(t, name, values); some {
			t.Errorf("one pod has no %s", name)
		}
	}
	values["shards"], values["arguments"] = 3, []string{"--scale=2", `--header=a: "b"`}
	values["volume"] = map[string]any{"claim": "data", "create": true, "size": "1Gi"}
	many, _ := chart(t, "job.yaml", values)
	after, _ := chart(t, "after.yaml", values)
	volume, _ := chart(t, "volume.yaml", values)
	args := strings.Join(many.Spec.Template.Spec.Containers[0].Args, " ")
	expect.Contains(t, args, `--shard=auto --start-barrier=/work/$(RUN)/barrier --output=/work/$(RUN)/shard-$(JOB_COMPLETION_INDEX) --progress=line --scale=2 --header=a: "b"`)
	if s := many.Spec; s.Completions != 3 || s.Parallelism != 3 || s.Template.Spec.Containers[0].Env[1].Value != "3" || s.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data" {
		t.Errorf("%+v", s)
	}
	if c := after.Spec.Template.Spec.Containers[0]; !after.Spec.Suspend || strings.Join(c.Args, " ") != "merge /work/run-7 --output=/work/run-7/all" || volume.Metadata.Name != "data" {
		t.Errorf("%+v, volume %+v", after.Spec, volume.Metadata)
	}
	values["upload"] = map[string]any{
		"image": "rclone/rclone:1.68", "command": []string{"rclone", "copy", "/work/$(RUN)", "s3:bucket"},
		"env": []any{map[string]any{"name": "RCLONE_S3_REGION", "value": "eu-1"}},
	}
	both, _ := chart(t, "after.yaml", values)
	if pod := both.Spec.Template.Spec; pod.InitContainers[0].Name != "merge" || pod.Containers[0].Name != "upload" || pod.Containers[0].Command[0] != "rclone" ||
		len(pod.Containers[0].Env) != 2 || pod.Containers[0].Env[1].Value != "eu-1" {
		t.Errorf("%+v", pod)
	}
}
