#include "comm/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Streams are the tags below these. MPI promises tags up to 32767.
constexpr int kControlTag = static_cast<int>(Transport::kNumStreams);
constexpr int kAbortTag = kControlTag + 1;
constexpr int kEndTag = kControlTag + 2;
static_assert(kEndTag <= 32767);

// How long the reason of an abort may take to the other ranks before this one goes.
constexpr milliseconds kTimeToTell{300};
// MPI_Finalize, when all ranks are known to be there.
constexpr milliseconds kTimeToFinalize{5'000};
// Between two looks at MPI while there is nothing else to do.
constexpr std::chrono::microseconds kPause{50};

template <typename T>
int take(std::vector<int>& free, T& pool) {
  if (free.empty()) {
    pool.emplace_back();
    free.reserve(pool.size());
    return static_cast<int>(pool.size()) - 1;
  }
  const int index = free.back();
  free.pop_back();
  return index;
}

}  // namespace

MpiTransport::MpiTransport(MpiTransportOptions options)
    : options_(std::move(options)), session_(options_.start_timeout) {
  ended_.resize(session_.peers().size());
  const std::scoped_lock lock(mutex_);
  for (int i = 0; i < kControlReceives; ++i) post_control_receive(i);
  post_abort_receive();
}

MpiTransport::~MpiTransport() {
  const std::scoped_lock lock(mutex_);
  try {
    if (!abort_flag().raised()) end_in_peace();
  } catch (const std::exception& error) {
    warn(fmt::format("MPI did not end well: {}", error.what()));
  }
  if (abort_flag().raised()) fall_silent();
}

int MpiTransport::node_of(int rank) const {
  return session_.peers()[static_cast<size_t>(rank)].node;
}

std::string MpiTransport::describe_peer(int rank) const {
  const MpiPeer& peer = session_.peers()[static_cast<size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", rank, peer.pid, peer.host);
}

void MpiTransport::require_open() const {
  if (silent_) throw CommError(abort_reason());
}

void MpiTransport::send_control(int peer, std::span<const std::byte> message) {
  TESSERA_CHECK(!message.empty() && message.size() <= kMaxControlBytes, "{} bytes", message.size());
  const std::scoped_lock lock(mutex_);
  require_open();
  const int index = take(free_control_out_, control_out_);
  ControlOut& out = control_out_[static_cast<size_t>(index)];
  std::copy(message.begin(), message.end(), out.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Isend(out.data(), static_cast<int>(message.size()), MPI_BYTE, peer, kControlTag,
                   session_.messages(), &request),
         "MPI_Isend");
  requests_.add(request, MpiTraffic::kControlOut, index);
}

void MpiTransport::post_control_receive(int index) {
  ControlIn& in = control_in_[static_cast<size_t>(index)];
  in.from = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Irecv(in.bytes.data(), static_cast<int>(in.bytes.size()), MPI_BYTE, MPI_ANY_SOURCE,
                   kControlTag, session_.messages(), &request),
         "MPI_Irecv");
  requests_.add(request, MpiTraffic::kControlIn, index);
}

void MpiTransport::post_abort_receive() {
  MPI_Request request = MPI_REQUEST_NULL;
  expect(MPI_Irecv(incoming_reason_.data(), static_cast<int>(incoming_reason_.size()), MPI_BYTE,
                   MPI_ANY_SOURCE, kAbortTag, session_.messages(), &request),
         "MPI_Irecv");
  requests_.add(request, MpiTraffic::kAbortIn, 0);
}

Transport::ControlMessage MpiTransport::poll_control() {
  const std::scoped_lock lock(mutex_);
  if (silent_) return {};
  if (std::exchange(control_lent_, false)) {
    post_control_receive((next_control_ + kControlReceives - 1) % kControlReceives);
  }
  const ControlIn& in = control_in_[static_cast<size_t>(next_control_)];
  if (in.from < 0) return {};
  control_lent_ = true;
  next_control_ = (next_control_ + 1) % kControlReceives;
  return {.from = in.from, .bytes = std::span(in.bytes).first(static_cast<size_t>(in.size_bytes))};
}

int MpiTransport::num_parts(int64_t size_bytes) const {
  const int64_t full = (size_bytes + options_.part_bytes - 1) / options_.part_bytes;
  return static_cast<int>(std::max<int64_t>(1, full));  // nothing is a message too
}

int MpiTransport::bytes_of_part(int64_t size_bytes, int part) const {
  return static_cast<int>(std::min(options_.part_bytes, size_bytes - part * options_.part_bytes));
}

int MpiTransport::new_data(int peer, uint32_t stream, int64_t size_bytes) {
  TESSERA_CHECK(stream < kNumStreams && size_bytes >= 0, "stream {}, {} bytes", stream, size_bytes);
  require_open();
  const int index = take(free_data_, data_);
  data_[static_cast<size_t>(index)] = {.peer = peer,
                                       .stream = stream,
                                       .size_bytes = size_bytes,
                                       .parts_left = num_parts(size_bytes)};
  return index;
}

Transport::Request MpiTransport::post_send(int peer, uint32_t stream, const void* data,
                                           int64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  const int index = new_data(peer, stream, size_bytes);
  for (int part = 0; part < num_parts(size_bytes); ++part) {
    const std::byte* const begin = static_cast<const std::byte*>(data) + part * options_.part_bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    expect(MPI_Isend(begin, bytes_of_part(size_bytes, part), MPI_BYTE, peer,
                     static_cast<int>(stream), session_.messages(), &request),
           "MPI_Isend");
    requests_.add(request, MpiTraffic::kDataOut, index);
  }
  return {index};
}

Transport::Request MpiTransport::post_receive(int peer, uint32_t stream, void* data,
                                              int64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  const int index = new_data(peer, stream, size_bytes);
  for (int part = 0; part < num_parts(size_bytes); ++part) {
    std::byte* const begin = static_cast<std::byte*>(data) + part * options_.part_bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    expect(MPI_Irecv(begin, bytes_of_part(size_bytes, part), MPI_BYTE, peer,
                     static_cast<int>(stream), session_.messages(), &request),
           "MPI_Irecv");
    requests_.add(request, MpiTraffic::kDataIn, index);
  }
  return {index};
}

bool MpiTransport::test(Request request) {
  const std::scoped_lock lock(mutex_);
  if (data_[static_cast<size_t>(request.id)].parts_left > 0) return false;
  free_data_.push_back(static_cast<int>(request.id));
  return true;
}

void MpiTransport::cancel(Request request) noexcept {
  const std::scoped_lock lock(mutex_);
  // The number is not used again: MPI still knows the buffer under it.
  if (data_[static_cast<size_t>(request.id)].parts_left > 0) fall_silent();
}

void MpiTransport::progress() {
  const std::scoped_lock lock(mutex_);
  if (!silent_) poll();
}

void MpiTransport::poll() {
  try {
    for (const MpiEnded& ended : requests_.poll()) handle(ended);
  } catch (const CommError& error) {
    fail(error.what());
  }
  // Also after the first reason, so that the second rank with one gets rid of it.
  if (requests_.pending(MpiTraffic::kAbortIn) == 0) post_abort_receive();
}

void MpiTransport::handle(const MpiEnded& ended) {
  const auto owner = static_cast<size_t>(ended.owner);
  switch (ended.traffic) {
    case MpiTraffic::kDataIn:
    case MpiTraffic::kDataOut:
      return finish_part(ended);
    case MpiTraffic::kControlIn:
      control_in_[owner].size_bytes = ended.bytes;
      control_in_[owner].from = ended.source;
      break;
    case MpiTraffic::kControlOut:
      free_control_out_.push_back(ended.owner);
      break;
    case MpiTraffic::kAbortIn:
      raise(std::string(incoming_reason_.data(), static_cast<size_t>(ended.bytes)));
      break;
    case MpiTraffic::kEndIn:
      ended_[static_cast<size_t>(ended.source)] = true;
      break;
    case MpiTraffic::kAbortOut:
    case MpiTraffic::kEndOut:
      break;
  }
  check_mpi(ended.error, "a message over MPI");
}

void MpiTransport::finish_part(const MpiEnded& ended) {
  Data& data = data_[static_cast<size_t>(ended.owner)];
  if (ended.error != MPI_SUCCESS) {
    throw CommError(fmt::format("{} bytes {} {} on stream {}: {}", data.size_bytes,
                                ended.traffic == MpiTraffic::kDataIn ? "from" : "to",
                                describe_peer(data.peer), data.stream,
                                mpi_error_text(ended.error)));
  }
  data.received_bytes += ended.bytes;
  --data.parts_left;
  if (data.parts_left > 0 || ended.traffic == MpiTraffic::kDataOut) return;
  if (data.received_bytes != data.size_bytes) {
    throw CommError(fmt::format("{} sent {} bytes on stream {} where {} were expected",
                                describe_peer(data.peer), data.received_bytes, data.stream,
                                data.size_bytes));
  }
}

// Synchronous sends: they are done when the other side has the reason, not when it is on its way.
// What cannot be sent is let go: there is nobody left to tell.
void MpiTransport::send_reason() {
  if (silent_) return;
  outgoing_reason_ = abort_reason().substr(0, kMaxReasonBytes);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Issend(outgoing_reason_.data(), static_cast<int>(outgoing_reason_.size()), MPI_BYTE,
                   peer, kAbortTag, session_.messages(), &request) == MPI_SUCCESS) {
      requests_.add(request, MpiTraffic::kAbortOut, peer);
    }
  }
}

void MpiTransport::expect(int code, const char* call) {
  if (code != MPI_SUCCESS) fail(fmt::format("{} failed: {}", call, mpi_error_text(code)));
}

void MpiTransport::fall_silent() noexcept {
  const auto deadline = Clock::now() + kTimeToTell;
  try {
    while (!silent_ && requests_.pending(MpiTraffic::kAbortOut) > 0 && Clock::now() < deadline) {
      poll();
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception&) {
    // The first failure is the one that counts.
  }
  silent_ = true;
}

void MpiTransport::end_in_peace() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    expect(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, kEndTag, session_.messages(), &request),
           "MPI_Irecv");
    requests_.add(request, MpiTraffic::kEndIn, peer);
    expect(MPI_Isend(nullptr, 0, MPI_BYTE, peer, kEndTag, session_.messages(), &request),
           "MPI_Isend");
    requests_.add(request, MpiTraffic::kEndOut, peer);
  }
  const auto deadline = Clock::now() + options_.timeout;
  while (!everyone_has_ended()) {
    poll();
    if (abort_flag().raised()) return warn(abort_reason());
    if (Clock::now() > deadline) {
      fail(fmt::format("waited {:.3f} s at the end of the world for {}",
                       static_cast<double>(options_.timeout.count()) / 1000, absent_at_the_end()));
    }
    std::this_thread::sleep_for(kPause);
  }
  requests_.cancel_receives();
  silent_ = true;
  if (!session_.finish(kTimeToFinalize)) warn("MPI_Finalize does not return: left behind");
}

bool MpiTransport::everyone_has_ended() const {
  return requests_.pending(MpiTraffic::kEndIn) == 0 &&
         requests_.pending(MpiTraffic::kEndOut) == 0 &&
         requests_.pending(MpiTraffic::kControlOut) == 0;
}

std::string MpiTransport::absent_at_the_end() const {
  std::string absent;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || ended_[static_cast<size_t>(peer)]) continue;
    absent += (absent.empty() ? "" : ", ") + describe_peer(peer);
  }
  return absent;
}

void MpiTransport::warn(const std::string& text) const {
  if (options_.on_warning) options_.on_warning(text);
}

}  // namespace tessera
