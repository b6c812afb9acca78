#include "launch/hosts/hosts_world.h"

#include <utility>

#include "base/error.h"
#include "comm/message/message_world.h"
#include "comm/shm/shm_world.h"
#include "comm/tcp/tcp_transport.h"
#include "launch/hosts/rank_mesh.h"

namespace tessera {
namespace {

class HostsWorld final : public CommWorld {
 public:
  HostsWorld(std::unique_ptr<CommWorld> board, std::unique_ptr<CallWatcher> watcher,
             std::unique_ptr<CommWorld> messages)
      : board_(std::move(board)), watcher_(std::move(watcher)), messages_(std::move(messages)) {}

  [[nodiscard]] int rank() const override { return messages_->rank(); }
  [[nodiscard]] int size() const override { return messages_->size(); }
  [[nodiscard]] std::string backend() const override { return messages_->backend(); }
  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override {
    return messages_->join(name, members);
  }
  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return messages_->allocate(name, size_bytes);
  }
  // The board hears of it through the transport, whoever was first.
  void abort(const std::string& reason) override { messages_->abort(reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override { return messages_->abort_flag(); }
  [[nodiscard]] std::string abort_reason() const override { return messages_->abort_reason(); }
  void look_for_lost_ranks() override {
    board_->look_for_lost_ranks();
    if (board_->aborted()) messages_->abort(board_->abort_reason());
  }
  [[nodiscard]] WorkNote* work_note(int stream) override { return board_->work_note(stream); }
  [[nodiscard]] bool stop_requested() const override { return board_->stop_requested(); }

  [[nodiscard]] CommWorld& board() { return *board_; }

 private:
  std::unique_ptr<CommWorld> board_;      // outlives the messages, which tell it of an abort
  std::unique_ptr<CallWatcher> watcher_;  // of the board; outlives the messages too
  std::unique_ptr<CommWorld> messages_;
};

}  // namespace

std::unique_ptr<CommWorld> make_hosts_world(std::unique_ptr<CommWorld> board,
                                            const LaunchContext& context,
                                            const HostsWorldOptions& options) {
  CommWorld* const agent = board.get();
  TcpTransportOptions tcp;
  tcp.rank = context.rank;
  tcp.run = context.run_id;
  tcp.generation = static_cast<uint64_t>(context.generation);
  tcp.timeout = options.timeout;
  tcp.on_warning = options.on_warning;
  tcp.trouble = [agent] { return agent->aborted() ? agent->abort_reason() : std::string(); };
  tcp.on_abort = [agent](const std::string& reason) { agent->abort(reason); };
  try {
    tcp.peers = connect_ranks(context, {.timeout = options.timeout, .on_note = options.on_warning});
  } catch (const Error& error) {
    agent->abort(error.what());
    throw;
  }
  std::unique_ptr<CallWatcher> watcher = watch_calls(*agent);
  auto messages = make_message_world(std::make_unique<TcpTransport>(std::move(tcp)),
                                     {.backend = "tcp",
                                      .timeout = options.timeout,
                                      .on_warning = options.on_warning,
                                      .watcher = watcher.get()});
  return std::make_unique<HostsWorld>(std::move(board), std::move(watcher), std::move(messages));
}

CommWorld& board_of(CommWorld& world) {
  auto* hosts = dynamic_cast<HostsWorld*>(&world);
  return hosts == nullptr ? world : hosts->board();
}

}  // namespace tessera
