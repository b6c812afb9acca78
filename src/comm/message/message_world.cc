#include "comm/message/message_world.h"

#include <algorithm>
#include <utility>

#include "comm/message/message_communicator.h"

namespace tessera {
namespace {

class MessageWorld final : public CommWorld {
 public:
  MessageWorld(std::unique_ptr<Transport> transport, MessageWorldOptions options)
      : engine_(std::move(transport), std::move(options)) {}

  [[nodiscard]] int rank() const override { return engine_.transport().rank(); }
  [[nodiscard]] int size() const override { return engine_.transport().size(); }
  [[nodiscard]] std::string backend() const override { return engine_.options().backend; }

  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override {
    for (size_t i = 0; i < members.size(); ++i) {
      require(members[i] >= 0 && members[i] < size(),
              "group {}: member {} is not in the world of 0 to {}", name, members[i], size() - 1);
      require(i == 0 || members[i - 1] < members[i],
              "group {}: member {} follows {}; members must ascend without repeats", name,
              members[i], i == 0 ? 0 : members[i - 1]);
    }
    require(std::find(members.begin(), members.end(), rank()) != members.end(),
            "group {}: rank {} joined but is not among the {} members", name, rank(),
            members.size());
    return std::make_unique<message::MessageCommunicator>(engine_, name, name, members);
  }

  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return HostArena(name, size_bytes);
  }

  void abort(const std::string& reason) override { engine_.transport().abort(reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override {
    return engine_.transport().abort_flag();
  }
  [[nodiscard]] std::string abort_reason() const override {
    return engine_.transport().abort_reason();
  }
  [[nodiscard]] bool stop_requested() const override {
    return engine_.transport().stop_requested();
  }

 private:
  message::MessageEngine engine_;
};

}  // namespace

std::unique_ptr<CommWorld> make_message_world(std::unique_ptr<Transport> transport,
                                              MessageWorldOptions options) {
  return std::make_unique<MessageWorld>(std::move(transport), std::move(options));
}

}  // namespace tessera
