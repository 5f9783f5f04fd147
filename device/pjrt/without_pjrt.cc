// In place of all else that needs pjrt_c_api.h, in a build that had none.
#include <memory>

#include "device/pjrt/topology.h"
#include "io/base/error.h"

namespace millrace::device::pjrt {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kUnsupported,
              "this build loads no PJRT plugins: it had no pjrt_c_api.h (tools/bootstrap.sh "
              "--accelerators has it from PyPI)");
}

}  // namespace

class Api {};

bool is_built() { return false; }
Plugin::Plugin(const std::string&) { refuse(); }

struct Buffer::State {};
Buffer::Buffer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;
void Buffer::read(std::span<std::byte>) const { refuse(); }
void Buffer::wait() const { refuse(); }

struct Program::State {};
Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;
std::size_t Program::num_results() const { refuse(); }
std::optional<std::string> Program::serialised() const { refuse(); }
std::vector<std::vector<Buffer>> Program::run(
    const std::vector<std::vector<const Buffer*>>&) const {
  refuse();
}
std::vector<Buffer> Program::run_on(std::size_t, const std::vector<const Buffer*>&) const {
  refuse();
}

struct Client::State {};
Client::Client(const Plugin&, const ClientOptions&) { refuse(); }
Client::~Client() = default;
const std::string& Client::platform() const { refuse(); }
const std::string& Client::platform_version() const { refuse(); }
const std::vector<DeviceInfo>& Client::devices() const { refuse(); }
const std::vector<std::int64_t>& Client::all_devices() const { refuse(); }
int Client::process() const { refuse(); }
Buffer Client::copy_in(std::size_t, const HostArray&) const { refuse(); }
Program Client::compile(std::string_view, const CompileOptions&) const { refuse(); }
Program Client::load(std::string_view, const CompileOptions&) const { refuse(); }

struct Topology::State {};
Topology::Topology(const Plugin&, const TopologyOptions&) { refuse(); }
Topology::~Topology() = default;
const std::vector<DeviceInfo>& Topology::devices() const { refuse(); }
ProgramCost Topology::compile(std::string_view, const CompileOptions&) const { refuse(); }

}  // namespace millrace::device::pjrt
