#include "tests/support/bucket_server.h"

#include <fcntl.h>
#include <signal.h>  // for kill
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/support/process.h"

namespace millrace::testing {
namespace {

using io::detail::UniqueFd;

// Each prints its port, and ends when its standard input does.
constexpr const char* kS3Script = R"(
import os, sys, logging
os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
logging.disable(logging.CRITICAL)
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
import urllib.request
urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d/bucket" % port, method="PUT"))
print(port, flush=True)
sys.stdin.read()
os._exit(0)
)";
constexpr const char* kGcsScript = R"(
import os, sys, logging
logging.disable(logging.CRITICAL)
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api._httpd.server_port, flush=True)
sys.stdin.read()
os._exit(0)
)";

// What moto's server needs is looked for by names that need no import: one in moto would import
// moto, a second of computing.
const char* modules(BucketServer::Kind kind) {
  return kind == BucketServer::Kind::kS3 ? "moto, flask" : "gcp_storage_emulator.server";
}

std::string read_line(int fd) {
  std::string line;
  char c = 0;
  while (::read(fd, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

}  // namespace

std::optional<std::string> BucketServer::missing(Kind kind) {
  if (!oracle_python(modules(kind)).empty()) return std::nullopt;
  return std::string("no ") + modules(kind) + " (tools/bootstrap.sh --tests installs it)";
}

BucketServer::BucketServer(Kind kind) : kind_(kind) {
  const std::string python = oracle_python(modules(kind));
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe");
  const UniqueFd input(in[0]);
  leash_ = UniqueFd(in[1]);
  const UniqueFd output(out[0]);
  UniqueFd their_output(out[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::dup2(input.get(), STDIN_FILENO);
    ::dup2(their_output.get(), STDOUT_FILENO);
    const UniqueFd quiet(::open("/dev/null", O_WRONLY));
    ::dup2(quiet.get(), STDERR_FILENO);
    ::execl(python.c_str(), python.c_str(), "-c", kind == Kind::kS3 ? kS3Script : kGcsScript,
            nullptr);
    ::_exit(127);
  }
  their_output.reset();
  const std::string port = read_line(output.get());
  if (port.empty()) throw std::runtime_error(std::string(modules(kind)) + " does not start");
  endpoint_ = "http://127.0.0.1:" + port;
}

BucketServer::~BucketServer() {
  leash_.reset();
  ::waitpid(pid_, nullptr, 0);
}

std::string BucketServer::url(const std::string& name) const {
  return (kind_ == Kind::kS3 ? "s3://bucket/" : "gs://bucket/") + name;
}

millrace::io::ObjectStoreOptions BucketServer::options() const {
  if (kind_ == Kind::kGcs) return {.gcs = {.endpoint = endpoint_}};
  return {.s3 = {.access_key_id = "test", .secret_access_key = "test", .endpoint = endpoint_}};
}

std::map<std::string, std::string> BucketServer::environment() const {
  if (kind_ == Kind::kGcs) return {{"STORAGE_EMULATOR_HOST", endpoint_}};
  return {{"AWS_ACCESS_KEY_ID", "test"},
          {"AWS_SECRET_ACCESS_KEY", "test"},
          {"AWS_ENDPOINT_URL", endpoint_}};
}

}  // namespace millrace::testing
