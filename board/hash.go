package board

// mix32 spreads every bit of h over the result. Only 32-bit operations, so that a browser computes the same without big integers.
func mix32(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return h
}

// Seeds of the two halves of a hash.
const (
	hashSeedLow  = 0x9e3779b9
	hashSeedHigh = 0x7f4a7c15
)

func hashHalf(seed, a, b uint32) uint32 {
	h := mix32(seed ^ a)
	return mix32(h + 0x9e3779b1 ^ b)
}

func hashPair(a, b uint32) uint64 {
	return uint64(hashHalf(hashSeedHigh, a, b))<<32 | uint64(hashHalf(hashSeedLow, a, b))
}

// TileHash returns the 64-bit hash of one tile. A tile of colour 0 has hash 0, so an untouched board has hash 0.
// A board's hash is the XOR over its tiles; a change of one tile changes it by TileHash(old) ^ TileHash(new).
func TileHash(p Point, c Colour) uint64 {
	if c == 0 {
		return 0
	}
	return hashPair(uint32(p.Y)<<16|uint32(p.X), uint32(c))
}

// SequenceHash returns the 64-bit hash of a chunk standing at a sequence number; 0 for sequence 0.
func SequenceHash(c ChunkID, sequence uint64) uint64 {
	if sequence == 0 {
		return 0
	}
	return hashPair(0x80000000|uint32(c), uint32(sequence)^mix32(uint32(sequence>>32)))
}
