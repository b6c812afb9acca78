// The transport alone, as every rank of an MPI job: messages arrive whole, in order and from the
// right rank, while others are under way.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "check.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/mpi/mpi_world.h"

namespace tessera {
namespace {

using testing::expect;
using Clock = std::chrono::steady_clock;

constexpr int64_t kPartBytes = 1000;  // so that small messages are split too

void wait_until(Transport& transport, const std::function<bool()>& done, const char* what) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!done()) {
    transport.progress();
    expect(!transport.abort_flag().raised(), "aborted: {}", transport.abort_reason());
    expect(Clock::now() < deadline, "rank {} hangs: {}", transport.rank(), what);
  }
}

// More of them than the transport has receives for, to everyone at once.
void control_messages_keep_their_order(Transport& transport) {
  constexpr int kMessages = 200;
  struct Message {
    int from;
    int number;
    std::byte padding[Transport::kMaxControlBytes - 2 * sizeof(int)];
  };
  for (int number = 0; number < kMessages; ++number) {
    Message message{.from = transport.rank(), .number = number, .padding = {}};
    // Messages of every length.
    const size_t length = 2 * sizeof(int) + static_cast<size_t>(number);
    for (int peer = 0; peer < transport.size(); ++peer) {
      if (peer == transport.rank()) continue;
      transport.send_control(peer, std::as_bytes(std::span(&message, 1)).first(length));
    }
  }
  std::vector<int> next(static_cast<size_t>(transport.size()));
  int missing = kMessages * (transport.size() - 1);
  wait_until(
      transport,
      [&] {
        while (true) {
          const Transport::ControlMessage arrived = transport.poll_control();
          if (arrived.from < 0) return missing == 0;
          Message message;
          std::memcpy(&message, arrived.bytes.data(), arrived.bytes.size());
          int& expected = next[static_cast<size_t>(arrived.from)];
          expect(message.from == arrived.from && message.number == expected,
                 "message {} of rank {} came as number {} of rank {}", message.number, message.from,
                 expected, arrived.from);
          expect(arrived.bytes.size() == 2 * sizeof(int) + static_cast<size_t>(expected),
                 "message {} has {} bytes", expected, arrived.bytes.size());
          ++expected;
          --missing;
        }
      },
      "control messages");
}

uint8_t pattern(int from, int to, size_t stream, size_t i) {
  return static_cast<uint8_t>(i * 31 + i / 251 + stream * 7 + static_cast<size_t>(from * 16 + to));
}

// Every rank to every other on several streams at once, posted in opposite orders.
void data_of_every_size(Transport& transport) {
  const std::vector<int64_t> sizes = {0,    1,    7,    999,  1000,         1001,
                                      2000, 4095, 4096, 4097, (1 << 20) + 3};
  struct Buffer {
    int peer;
    size_t stream;
    std::vector<uint8_t> bytes;
    Transport::Request request;
    bool done = false;
  };
  std::vector<Buffer> out;
  std::vector<Buffer> in;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) continue;
    for (size_t stream = 0; stream < sizes.size(); ++stream) {
      const auto size = static_cast<size_t>(sizes[stream]);
      in.push_back({peer, stream, std::vector<uint8_t>(size, 0xEE), {}});
      Buffer sent{peer, stream, std::vector<uint8_t>(size), {}};
      for (size_t i = 0; i < size; ++i) {
        sent.bytes[i] = pattern(transport.rank(), peer, stream, i);
      }
      out.push_back(std::move(sent));
    }
  }
  const auto size_of = [](const Buffer& b) { return static_cast<int64_t>(b.bytes.size()); };
  for (Buffer& b : out) {
    b.request =
        transport.post_send(b.peer, static_cast<uint32_t>(b.stream), b.bytes.data(), size_of(b));
  }
  for (auto b = in.rbegin(); b != in.rend(); ++b) {
    b->request = transport.post_receive(b->peer, static_cast<uint32_t>(b->stream), b->bytes.data(),
                                        size_of(*b));
  }
  size_t left = in.size() + out.size();
  wait_until(
      transport,
      [&] {
        for (std::vector<Buffer>* side : {&in, &out}) {
          for (Buffer& b : *side) {
            if (b.done || !transport.test(b.request)) continue;
            b.done = true;
            --left;
          }
        }
        return left == 0;
      },
      "data");
  for (const Buffer& b : in) {
    for (size_t i = 0; i < b.bytes.size(); ++i) {
      expect(b.bytes[i] == pattern(b.peer, transport.rank(), b.stream, i),
             "byte {} of {} from rank {} is wrong", i, b.bytes.size(), b.peer);
    }
  }
}

// Several on one stream match in the order posted.
void one_stream_keeps_its_order(Transport& transport) {
  constexpr int kMessages = 20;
  const int next = (transport.rank() + 1) % transport.size();
  const int previous = (transport.rank() + transport.size() - 1) % transport.size();
  if (next == transport.rank()) return;
  std::vector<int64_t> out(kMessages);
  std::iota(out.begin(), out.end(), 1000 * transport.rank());
  std::vector<int64_t> in(kMessages);
  std::vector<Transport::Request> requests;
  for (size_t i = 0; i < kMessages; ++i) {
    requests.push_back(transport.post_receive(previous, 5, &in[i], sizeof(int64_t)));
    requests.push_back(transport.post_send(next, 5, &out[i], sizeof(int64_t)));
  }
  for (const Transport::Request request : requests) {
    wait_until(
        transport, [&] { return transport.test(request); }, "a stream");
  }
  for (int i = 0; i < kMessages; ++i) {
    expect(in[static_cast<size_t>(i)] == 1000 * previous + i, "message {} is {}", i,
           in[static_cast<size_t>(i)]);
  }
}

void ranks_are_described(Transport& transport) {
  const std::string mine = transport.describe_peer(transport.rank());
  const std::string begin = fmt::format("rank {} (pid {} on ", transport.rank(), getpid());
  expect(mine.starts_with(begin), "{}", mine);
  expect(transport.node_of(0) == 0, "rank 0 is on node {}", transport.node_of(0));
}

void check_everything() {
  MpiTransport transport({.timeout = std::chrono::seconds(20), .part_bytes = kPartBytes});
  ranks_are_described(transport);
  for (int round = 0; round < 3; ++round) {
    control_messages_keep_their_order(transport);
    data_of_every_size(transport);
    one_stream_keeps_its_order(transport);
  }
}

}  // namespace
}  // namespace tessera

int main() {
  try {
    tessera::check_everything();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    tessera::end_mpi_after_failure(1);
  }
}
