#include "comm/mpi/mpi_session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "comm/communicator.h"

namespace tessera {
namespace {

// As it travels to the other ranks.
struct Card {
  int64_t pid = 0;
  std::array<char, 256> host = {};
};

struct Start {
  int threads_allowed = MPI_THREAD_SINGLE;
  int rank = 0;
  MPI_Comm messages = MPI_COMM_NULL;
  std::vector<Card> cards;
};

Card my_card() {
  Card card{.pid = getpid()};
  require(gethostname(card.host.data(), card.host.size() - 1) == 0,
          "MPI: the name of this host cannot be read");
  return card;
}

// The only blocking calls of MPI, except for MPI_Finalize.
void start_mpi(Start& start) {
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &start.threads_allowed),
            "MPI_Init_thread");
  if (start.threads_allowed < MPI_THREAD_SERIALIZED) return;
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &start.messages), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(start.messages, &start.rank), "MPI_Comm_rank");
  int size = 0;
  check_mpi(MPI_Comm_size(start.messages, &size), "MPI_Comm_size");
  const Card mine = my_card();
  start.cards.resize(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&mine, sizeof(Card), MPI_BYTE, start.cards.data(), sizeof(Card), MPI_BYTE,
                          start.messages),
            "MPI_Allgather");
}

std::vector<MpiPeer> read_cards(const std::vector<Card>& cards) {
  std::vector<MpiPeer> peers;
  int num_nodes = 0;
  for (const Card& card : cards) {
    MpiPeer peer{.pid = static_cast<pid_t>(card.pid), .host = card.host.data()};
    const auto neighbour = std::find_if(peers.begin(), peers.end(),
                                        [&](const MpiPeer& p) { return p.host == peer.host; });
    peer.node = neighbour != peers.end() ? neighbour->node : num_nodes++;
    peers.push_back(peer);
  }
  return peers;
}

void require_fresh_mpi() {
  int started = 0;
  check_mpi(MPI_Initialized(&started), "MPI_Initialized");
  require(started == 0,
          "MPI has been started in this process before: a process has one MPI world, once");
}

}  // namespace

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<size_t>(length)};
}

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS)
    throw CommError(fmt::format("{} failed: {}", what, mpi_error_text(code)));
}

MpiSession::MpiSession(std::chrono::milliseconds timeout) {
  require(timeout.count() > 0, "MPI: the timeout is {} ms: it must be positive", timeout.count());
  require_fresh_mpi();
  const auto start = std::make_shared<Start>();  // the thread may outlive this call
  if (!thread_.run([start] { start_mpi(*start); }, timeout)) {
    throw CommError(
        fmt::format("MPI did not start within {:.3f} s: process {} waits in MPI_Init, most likely "
                    "for a rank of the job that has not called it or cannot be reached",
                    static_cast<double>(timeout.count()) / 1000, getpid()));
  }
  require(start->threads_allowed >= MPI_THREAD_SERIALIZED,
          "this MPI library was built for one thread only; Tessera needs MPI_THREAD_SERIALIZED");
  rank_ = start->rank;
  messages_ = start->messages;
  peers_ = read_cards(start->cards);
}

bool MpiSession::finish(std::chrono::milliseconds time) {
  return thread_.run(
      [messages = messages_]() mutable {
        check_mpi(MPI_Comm_free(&messages), "MPI_Comm_free");
        check_mpi(MPI_Finalize(), "MPI_Finalize");
      },
      time);
}

}  // namespace tessera
