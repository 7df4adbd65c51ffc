package engine

import "sync/atomic"

// atomicOf is an atomic.Uint32 of a type with names for its values.
type atomicOf[T ~uint32] struct{ v atomic.Uint32 }

func (a *atomicOf[T]) Load() T    { return T(a.v.Load()) }
func (a *atomicOf[T]) Store(to T) { a.v.Store(uint32(to)) }
func (a *atomicOf[T]) CompareAndSwap(from, to T) bool {
	return a.v.CompareAndSwap(uint32(from), uint32(to))
}
