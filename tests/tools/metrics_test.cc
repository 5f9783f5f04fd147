// --metrics-listen: a run's numbers as prometheus_client reads them, beside clients that mean harm;
// the server alone, whose limits are short.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/nginx.h"
#include "tests/tools/support.h"
#include "tools/job_metrics.h"
#include "tools/metrics_answer.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using tools::MetricsPage;
using tools::MetricsRequest;
using tools::MetricsServer;

class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& text) const {
    ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Until the server closes the connection.
  std::string rest() const {
    std::string text;
    char piece[4096];
    for (ssize_t got = 0; (got = ::recv(socket_, piece, sizeof piece, 0)) > 0;)
      text.append(piece, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int socket_;
};

std::string ask(const MetricsServer& server, const std::string& request) {
  const Client client(server.address().port);
  client.send(request);
  return client.rest();
}

/// Answers with what was asked.
MetricsPage echo(const MetricsRequest& request) {
  return {.text = request.path + "|" + request.within.value_or("none") + request.unknown};
}

TEST(MetricsServer, AnswersGetAndHead) {
  const MetricsServer server({}, echo);
  EXPECT_THAT(ask(server, "GET /a?within=5 HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Connection: close"),
                    ::testing::EndsWith("\r\n\r\n/a|5")));
  EXPECT_THAT(ask(server, "GET /a?within= HTTP/1.1\r\nHost: x\r\n\r\n"),
              ::testing::EndsWith("\r\n\r\n/a|"));
  EXPECT_THAT(ask(server, "GET /a?witin=5 HTTP/1.1\r\nHost: x\r\n\r\n"),
              ::testing::EndsWith("\r\n\r\n/a|nonewitin"));
  EXPECT_THAT(ask(server, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), ::testing::EndsWith("\r\n\r\n")));
}

TEST(MetricsServer, RefusesEverythingElse) {
  const MetricsServer server({}, echo);
  EXPECT_THAT(ask(server, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nabc"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(ask(server, "GET /" + std::string(50'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
              ::testing::Not(HasSubstr(" 200")));
  EXPECT_THAT(ask(server, "\x16\x03\x01 not http at all\r\n\r\n"),
              ::testing::Not(HasSubstr(" 200")));
}

TEST(MetricsServer, EndsAClientThatTakesTooLongHoweverItBehaves) {
  const MetricsServer server({}, echo, {.time_limit = std::chrono::milliseconds(200)});
  const Client slow(server.address().port);
  const Client silent(server.address().port);
  slow.send("GET /a HTTP/1.1\r\nX-");
  std::atomic<bool> ended = false;
  const std::jthread drip([&](const std::stop_token& stop) {  // never silent for long
    while (!stop.stop_requested() && !ended) {
      slow.send("y");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_THAT(slow.rest(), ::testing::Not(HasSubstr(" 200")));
  ended = true;
  EXPECT_EQ(silent.rest(), "");
}

TEST(MetricsServer, ServesTheNextOneWhenTooManyHaveGone) {
  const MetricsServer server({}, echo,
                             {.connections = 2, .full_limit = std::chrono::milliseconds(50)});
  std::vector<std::unique_ptr<Client>> holders;
  for (int i = 0; i < 6; ++i) holders.push_back(std::make_unique<Client>(server.address().port));
  EXPECT_THAT(ask(server, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("/late|"));
}

TEST(MetricsServer, NamesAnAddressThatIsTaken) {
  const MetricsServer first({}, echo);
  try {
    const MetricsServer second(first.address(), echo);
    FAIL() << "listens twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr(first.address().text()), HasSubstr("already in use")));
  }
}

TEST(ListenAddress, IsLoopbackUnlessAskedFor) {
  const std::map<std::string, std::string> read = {{"9400", "127.0.0.1:9400"},
                                                   {":9400", "127.0.0.1:9400"},
                                                   {"localhost:0", "127.0.0.1:0"},
                                                   {"[::1]:9400", "[::1]:9400"},
                                                   {"0.0.0.0:65535", "0.0.0.0:65535"}};
  for (const auto& [text, means] : read)
    EXPECT_EQ(tools::parse_listen_address(text).text(), means) << text;
  EXPECT_TRUE(tools::parse_listen_address("[::1]:1").is_loopback());
  EXPECT_FALSE(tools::parse_listen_address("0.0.0.0:1").is_loopback());
  for (const char* bad : {"", ":", "a", "host:1", "1.2.3:4", "127.0.0.1:65536", "127.0.0.1:-1",
                          "::1:9400", "[127.0.0.1]:9400", "[::1]", "127.0.0.1:9400/metrics"})
    EXPECT_THROW(tools::parse_listen_address(bad), Error) << bad;
}

TEST(MetricsAnswer, SaysThatARunStallsToWhomAsks) {
  class StoppedClock final : public Clock {
   public:
    TimePoint now() const override { return at; }
    bool sleep_for(Duration /*time*/, const std::stop_token& /*stop*/) const override {
      return true;
    }
    TimePoint at = TimePoint(std::chrono::hours(1));
  } clock;
  trainer::PrometheusMetrics metrics("1", clock);
  metrics.on_step({.step = 7});
  clock.at += std::chrono::seconds(61);
  const auto health = [&](const std::optional<std::string>& within) {
    return tools::answer(tools::pages_of(metrics), {.path = "/healthz", .within = within});
  };
  EXPECT_EQ(health(std::nullopt).status, 200U);
  EXPECT_EQ(health("").status, 400U);
  EXPECT_EQ(
      tools::answer(tools::pages_of(metrics), {.path = "/healthz", .unknown = "witin"}).status,
      400U);
  EXPECT_EQ(health("62").status, 200U);
  EXPECT_EQ(health("60").status, 503U);
  EXPECT_EQ(health("x").status, 400U);
  EXPECT_EQ(nlohmann::json::parse(health("60").text)["seconds_since_progress"], 61);
}

TEST(PrometheusMetrics, KeepsNamesOfFilesInTheirLabels) {
  trainer::PrometheusMetrics metrics;
  trainer::EpochEvent epoch;
  epoch.train = {{"iou/a\"b\\c\nd\xff", std::nan("")}};
  metrics.on_train_end(epoch);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(millrace_measure{set="train",measure="iou/a\"b\\c d\\xff"} NaN)"));
  for (const std::string& line : lines_of(text))
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with("millrace_") ||
                line.starts_with("process_"))
        << line;
}

TEST(PrometheusMetrics, ShowsAnInputAsLongAsItIsWatched) {
  trainer::PrometheusMetrics metrics;
  {
    const trainer::PrometheusMetrics::Watched watched(
        metrics, {.train = [] { return trainer::InputState{.landed_samples = 48}; },
                  .topology = {.process = 1, .processes = 2}});
    EXPECT_THAT(metrics.text(),
                AllOf(HasSubstr("millrace_input_landed_samples{set=\"train\"} 48\n"),
                      HasSubstr("millrace_phase{phase=\"training\"} 1\n")));
  }
  EXPECT_THAT(metrics.text(), ::testing::Not(HasSubstr("{set=\"train\"}")));
}

TEST(MetricsListen, IsReadByPrometheusWhateverOthersDo) {
  const std::string python = oracle_python("prometheus_client");
  if (python.empty()) GTEST_SKIP() << "no Python with prometheus_client (MILLRACE_ORACLE_PYTHON)";
  const TempDir dir;
  const ProcessResult result = run_process({python, "tests/tools/metrics_client.py",
                                            MILLRACE_PROGRAM, make_set(dir, 64, 32), dir / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto found = nlohmann::json::parse(result.out);
  std::vector<std::string> names;
  for (const auto& [name, type] : found["families"].items()) names.push_back(name);
  EXPECT_THAT(names, IsSupersetOf({"millrace_loss", "millrace_learning_rate", "millrace_faults",
                                   "millrace_input_landed_samples", "millrace_input_held_bytes",
                                   "millrace_input_bytes", "millrace_network_retries",
                                   "process_resident_memory_bytes"}));
  EXPECT_EQ(found["families"]["millrace_steps"], "counter");
  EXPECT_EQ(found["families"]["millrace_loss"], "gauge");
  EXPECT_TRUE(found["helped"]);
  EXPECT_TRUE(found["rises"]);
  EXPECT_EQ(found["phases"], 1);
  EXPECT_GT(found["rate"], 0);
  EXPECT_GT(found["parts"], 0);
  EXPECT_GE(found["age"], 0);
  EXPECT_GE(found["top1"], 0);
  EXPECT_EQ(found["stages"], nlohmann::json({"decode", "deliver", "merge", "read"}));
  EXPECT_EQ(found["sets"], nlohmann::json({"train", "val"}));
  EXPECT_EQ(found["health"]["status"], 200);
  EXPECT_EQ(found["health"]["type"], "application/json");
  EXPECT_EQ(found["missing"], 404);
  EXPECT_EQ(found["status"], 143) << "stopped by SIGTERM";
}

/// What a job's pages held while it worked, read by prometheus_client.
nlohmann::json asked_of_job(const std::vector<std::string>& job) {
  std::vector<std::string> words = {oracle_python("prometheus_client"),
                                    "tests/tools/job_metrics_client.py", MILLRACE_PROGRAM};
  words.insert(words.end(), job.begin(), job.end());
  const ProcessResult result = run_process(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

TEST(MetricsListen, AnswersForWhatWorksThroughASet) {
  if (oracle_python("prometheus_client").empty())
    GTEST_SKIP() << "no Python with prometheus_client (MILLRACE_ORACLE_PYTHON)";
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  make_set(dir, 400, 200);
  const Nginx nginx(dir.path(), {.location_lines = "limit_rate 20k;"});  // for longer than asked
  const std::string new_set = dir / "new-%06d.tar";
  const auto reshard =
      asked_of_job({"reshard", nginx.url("set-{000000..000001}.tar"), new_set, "--maxcount", "1"});
  EXPECT_GT(reshard["millrace_job_samples_total"], 0);
  EXPECT_GT(reshard["millrace_job_shards_total"], 0);
  EXPECT_GT(reshard["millrace_job_read_bytes_total"], 0);
  EXPECT_GT(reshard["millrace_job_written_bytes_total"], 0);
  EXPECT_EQ(reshard["millrace_network_retries_total"], 0);
  EXPECT_EQ(reshard["health"]["command"], "reshard");
  EXPECT_EQ(reshard["status"], 143) << "stopped by SIGTERM";
  const auto create = asked_of_job({"create", dir / "made-%06d.tar", "--synthetic", "classes",
                                    "--count", "1000000", "--maxcount", "10"});
  EXPECT_EQ(create["millrace_job_expected_samples"], 1'000'000);
  EXPECT_GT(create["millrace_job_samples_total"], 0);
  const auto bench = asked_of_job({"bench", dir / "set-000000.tar", "--seconds", "600"});
  EXPECT_GT(bench["millrace_input_samples_total"], 0);
}

TEST(JobMetrics, ProgressIsASampleAShardOrWhatIsRead) {
  FakeClock clock;
  tools::JobMetrics metrics({.command = "create"}, clock);
  const auto idle = [&] { return metrics.seconds_since_progress(); };
  clock.advance(std::chrono::seconds(5));
  EXPECT_EQ(idle(), 5);
  metrics.at(1);
  EXPECT_EQ(idle(), 0);
  clock.advance(std::chrono::seconds(61));
  metrics.skipped(0);
  EXPECT_EQ(idle(), 61) << "nothing was skipped";
  EXPECT_EQ(tools::answer(tools::pages_of(metrics), {.path = "/healthz", .within = "60"}).status,
            503U);
  metrics.skipped(1);
  EXPECT_EQ(idle(), 0);
  clock.advance(std::chrono::seconds(1));
  metrics.read(100);
  EXPECT_EQ(idle(), 0);
  clock.advance(std::chrono::seconds(1));
  metrics.add_shard(512);
  EXPECT_EQ(nlohmann::json::parse(metrics.health()),
            (nlohmann::json{{"command", "create"},
                            {"samples", 1},
                            {"expected", 0},
                            {"seconds_since_progress", 0.0}}));
  EXPECT_THAT(metrics.text(), AllOf(HasSubstr("\nmillrace_job_written_bytes_total 512\n"),
                                    HasSubstr("\nmillrace_job_skipped_samples_total 1\n")));
}

TEST(MetricsListen, RefusesWhatIsNoAddress) {
  const TempDir dir;
  const ProcessResult result = millrace(
      {"train", make_set(dir, 8, 8), "--model", "lenet", "--metrics-listen", "example.org:80"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--metrics-listen"));
}

}  // namespace
}  // namespace millrace::testing
