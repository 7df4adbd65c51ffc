//go:build !linux

package main

import "errors"

const refuseCommand = "refuse-sched-setattr"

func refuse([]string) error { return errors.New(refuseCommand + " is for Linux") }
