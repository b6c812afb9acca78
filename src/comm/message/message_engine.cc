#include "comm/message/message_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::message {

MessageEngine::MessageEngine(std::unique_ptr<Transport> transport, MessageWorldOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      next_stream_(static_cast<size_t>(transport_->size())),
      left_(static_cast<size_t>(transport_->size())) {
  require(options_.timeout.count() > 0, "a world with a timeout of {} ms: it must be positive",
          options_.timeout.count());
}

MessageEngine::~MessageEngine() {
  if (transport_->abort_flag().raised()) return;
  try {
    for (int peer = 0; peer < transport_->size(); ++peer) {
      if (peer != transport_->rank()) send_header(peer, {.kind = ControlKind::kLeave});
    }
  } catch (const std::exception&) {
    // The peers learn of it from the abort that came with the error.
  }
}

bool MessageEngine::add(uint64_t id, Group& group) {
  if (!groups_.emplace(id, &group).second) return false;
  in_order_.push_back(&group);
  for (const Early& early : early_) {
    if (early.header.group == id) group.take_header(early.from, early.header);
  }
  std::erase_if(early_, [&](const Early& early) { return early.header.group == id; });
  return true;
}

void MessageEngine::remove(uint64_t id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return;
  std::erase(in_order_, found->second);
  groups_.erase(found);
}

bool MessageEngine::progress() {
  if (transport_->abort_flag().raised()) return false;
  transport_->progress();
  if (transport_->abort_flag().raised()) return false;
  while (true) {
    const Transport::ControlMessage message = transport_->poll_control();
    if (message.from < 0) break;
    take_control(message);
  }
  for (Group* group : in_order_) group->advance();
  return true;
}

void MessageEngine::take_control(const Transport::ControlMessage& message) {
  note_activity();
  CallHeader header;
  header.protocol = 0;
  std::memcpy(&header, message.bytes.data(), std::min(message.bytes.size(), sizeof(header)));
  if (header.protocol != CallHeader::kProtocol || message.bytes.size() != sizeof(header)) {
    const std::string reason = fmt::format("{} runs another version of this program than {}",
                                           transport_->describe_peer(message.from),
                                           transport_->describe_peer(transport_->rank()));
    transport_->abort(reason);
    throw CommError(reason);
  }
  if (header.kind == ControlKind::kLeave) {
    left_[static_cast<size_t>(message.from)] = true;
    return;
  }
  const auto group = groups_.find(header.group);
  if (group == groups_.end()) {
    early_.push_back({message.from, header});
  } else {
    group->second->take_header(message.from, header);
  }
}

void MessageEngine::send_header(int world_rank, const CallHeader& header) {
  transport_->send_control(world_rank, std::as_bytes(std::span(&header, 1)));
}

uint32_t MessageEngine::next_stream(int world_rank) {
  return next_stream_[static_cast<size_t>(world_rank)]++ % Transport::kNumStreams;
}

}  // namespace tessera::message
