// Ranks that connect, as threads, and visitors of their ports that should not be there.
#include "launch/hosts/rank_mesh.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/communicator.h"
#include "launch/hosts/handshake.h"
#include "launch/rendezvous/socket.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class RankMeshTest : public ::testing::Test {
 protected:
  // Contexts of `size` ranks, two on each host.
  std::vector<LaunchContext> contexts(int size) {
    std::vector<LaunchContext> all(static_cast<size_t>(size));
    std::vector<std::string> addresses;
    for (LaunchContext& context : all) {
      Listener listener = listen_on("127.0.0.1", 0);
      ports_.push_back(listener.port);
      addresses.push_back(address_text("127.0.0.1", listener.port));
      context.listener_fd = listener.fd.release();
    }
    for (int rank = 0; rank < size; ++rank) {
      LaunchContext& context = all[static_cast<size_t>(rank)];
      context.rank = rank;
      context.size = size;
      context.local_size = 2;
      context.generation = 4;
      context.run_id = 9;
      context.mesh_key = mesh_key("secret", 9, 4);
      context.addresses = addresses;
    }
    return all;
  }
  // What each rank threw.
  std::vector<std::string> connect(const std::vector<LaunchContext>& all,
                                   std::chrono::milliseconds timeout = 10s) {
    std::vector<std::string> errors(all.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          RankMeshOptions options{.timeout = timeout};
          options.on_note = [this](const std::string& text) {
            const std::scoped_lock lock(mutex_);
            notes_ += text + "\n";
          };
          for (const TcpPeer& peer : connect_ranks(all[rank], options)) {
            if (peer.socket >= 0) ::close(peer.socket);
          }
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  std::vector<int> ports_;
  std::mutex mutex_;
  std::string notes_;
};

TEST_F(RankMeshTest, ConnectsEachWithEach) {
  for (const std::string& error : connect(contexts(5))) EXPECT_EQ(error, "");
}

TEST_F(RankMeshTest, SaysWhoDidNotCome) {
  std::vector<LaunchContext> all = contexts(3);
  const UniqueFd silent(all.back().listener_fd);
  all.pop_back();
  const auto errors = connect(all, 300ms);
  EXPECT_NE(errors[0].find("rank 0 waited 0.3 s for rank 2 to connect"), std::string::npos)
      << errors[0];
}

TEST_F(RankMeshTest, RefusesRanksOfAnotherRunGenerationOrToken) {
  for (const std::string wrong : {"run", "generation", "key"}) {
    SCOPED_TRACE(wrong);
    std::vector<LaunchContext> all = contexts(2);
    if (wrong == "run") all[1].run_id = 8;
    if (wrong == "generation") all[1].generation = 3;
    if (wrong == "key") all[1].mesh_key = mesh_key("secret", 9, 3);
    const auto errors = connect(all, 500ms);
    EXPECT_FALSE(errors[0].empty());
    EXPECT_FALSE(errors[1].empty());
  }
}

TEST_F(RankMeshTest, Row25StrangersHoldUpNobody) {
  const std::vector<LaunchContext> all = contexts(3);
  std::vector<UniqueFd> strangers;
  for (const int port : ports_) {
    for (const std::string text : {"", "GET / HTTP/1.1\r\n\r\n", "TSCT", "\0\0\0\0"}) {
      strangers.push_back(connect_to("127.0.0.1", port, Clock::now() + 5s));
      (void)send_all(strangers.back().get(), text, Clock::now() + 1s);
    }
  }
  for (const std::string& error : connect(all)) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace tessera
