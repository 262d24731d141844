package clients

// Slot stands for one record whose latency is measured.
type Slot int32

// Unmeasured is the slot of all other records.
const Unmeasured Slot = -1

// Slots is how many records can be measured at a time. What a client needs for each, a callback or the value of a field,
// is made once, so that measuring allocates nothing.
const Slots = 1 << 13

// slotOf and indexOf arrange callbacks made beforehand: the last of Slots+1 is that of Unmeasured.
func slotOf(index int) Slot {
	if index == Slots {
		return Unmeasured
	}
	return Slot(index)
}

func indexOf(slot Slot) int {
	if slot == Unmeasured {
		return Slots
	}
	return int(slot)
}

// slotFields are all slots as the value of a field of any type.
var slotFields = func() (fields [Slots]any) {
	for i := range fields {
		fields[i] = Slot(i)
	}
	return fields
}()

// slotField is what travels with a measured record, in whatever field a client has for that, and slotIn what comes back.
func slotField(slot Slot) any { return slotFields[slot] }

func slotIn(field any) Slot {
	if slot, ok := field.(Slot); ok {
		return slot
	}
	return Unmeasured
}
