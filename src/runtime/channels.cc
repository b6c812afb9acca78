#include "runtime/channels.h"

namespace tessera {
namespace {

std::string channel_name(const GroupId& group, StreamKind stream) {
  if (stream == StreamKind::kComm) return name_of(group);
  return name_of(group) + (stream == StreamKind::kPipe ? ".messages" : ".data");
}

}  // namespace

// Calls of one communicator go one after the other, from one thread: what has another stream has
// another communicator. Messages are told apart by their names, except in NCCL: what one rank sends
// before a collective, another may receive behind it.
StreamKind Channels::channel_of(const Instruction& instruction) const {
  const bool messages = instruction.stream == StreamKind::kPipe && world_.backend() == "nccl";
  const bool data = instruction.stream == StreamKind::kData;
  return messages || data ? instruction.stream : StreamKind::kComm;
}

Communicator& Channels::open(const Program& program, const Instruction& instruction) {
  const GroupId group = group_of(instruction);
  const StreamKind stream = channel_of(instruction);
  const std::vector<int> members = members_of(program, group);
  std::unique_ptr<Communicator>& joined = groups_[{group, stream, members}];
  if (joined == nullptr) {
    joined = world_.join(channel_name(group, stream), members);
    meter_.watch(name_of(group), *joined);
  }
  return *joined;
}

}  // namespace tessera
