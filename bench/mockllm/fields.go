package mockllm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// instancePlaceholder stands for Config.Instance in headers and body fields.
const instancePlaceholder = "{instance}"

// instanceName puts the instance's number into text.
func (c *Config) instanceName(text string) string {
	return strings.ReplaceAll(text, instancePlaceholder, strconv.Itoa(c.Instance))
}

// renderFields makes the members that "a.b=value" lines ask for, each with its comma before it.
func renderFields(lines []string) ([]byte, error) {
	root := map[string]any{}
	for _, line := range lines {
		path, value, ok := strings.Cut(line, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("body field %q: must be PATH=VALUE, such as nvext.worker_id=1", line)
		}
		if err := setField(root, strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("body field %q: %w", line, err)
		}
	}
	if len(root) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("body fields: %w", err)
	}
	b[0] = ',' // in place of the object's brace
	return b[:len(b)-1], nil
}

// setField sets a member of an object or of one inside it. A value that is JSON is taken as JSON, any other is a string.
func setField(object map[string]any, path []string, value string) error {
	name := path[0]
	if len(path) > 1 {
		inner, ok := object[name].(map[string]any)
		if !ok && object[name] != nil {
			return fmt.Errorf("%s has a value already", name)
		}
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		return setField(inner, path[1:], value)
	}
	if object[name] != nil {
		return fmt.Errorf("%s is given twice", name)
	}
	if json.Valid([]byte(value)) {
		object[name] = json.RawMessage(value)
	} else {
		object[name] = value
	}
	return nil
}
