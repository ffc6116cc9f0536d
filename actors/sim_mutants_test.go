package actors

// mutant breaks the cores from the outside: its functions may change a message, a core or an effect on the way.
type mutant struct {
	name        string
	shard       func(*simShard, any) any
	afterShard  func(*simShard, any)
	shardEffect func(*simShard, ShardEffect) ShardEffect
	user        func(*simUser, UserMessage) UserMessage
	userEffect  func(*simUser, UserEffect)
	block       func(*simBlock, RegionMessage) RegionMessage
	blockEffect func(*simBlock, RegionEffect) RegionEffect
	feed        func(*simFeed, FeedMessage) FeedMessage
	resend      func(*sending)
}
