// A link with delay and rate between two network namespaces, for machines whose kernel has no
// netem: two TUN devices, whose packets wait here. They come as the kernel's segmentation offload
// makes them, many of a flow in one, each with its virtio_net_hdr, which costs little processor
// time.
//
//   far_link DEVICE_A DEVICE_B DELAY_MS MBIT_S
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kQueueBytes = std::size_t{32} << 20;

struct Packet {
  Clock::time_point due;
  std::vector<char> data;
};

int open_tun(const char* name) {
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (fd < 0 || ::ioctl(fd, TUNSETIFF, &request) != 0 ||
      ::ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
    std::perror(name);
    std::exit(1);
  }
  return fd;
}

void carry(int from, int to, std::chrono::nanoseconds delay, double bytes_per_s) {
  std::deque<Packet> queue;
  std::size_t queued = 0;
  Clock::time_point free_at = Clock::now();
  std::vector<char> buffer(131072);
  for (;;) {
    Clock::time_point now = Clock::now();
    while (!queue.empty() && queue.front().due <= now) {
      static_cast<void>(!::write(to, queue.front().data.data(), queue.front().data.size()));
      queued -= queue.front().data.size();
      queue.pop_front();
    }
    timespec wait{1, 0};
    if (!queue.empty()) {
      const auto left = std::max<std::int64_t>(0, (queue.front().due - now).count());
      wait = {0, std::min<long>(left, 999'999'999)};
    }
    pollfd ready{from, POLLIN, 0};
    ::ppoll(&ready, 1, &wait, nullptr);
    for (int i = 0; i < 64; ++i) {
      const ssize_t got = ::read(from, buffer.data(), buffer.size());
      if (got <= 0) break;
      now = Clock::now();
      const auto size = static_cast<std::size_t>(got);
      if (queued + size > kQueueBytes) continue;  // a full queue drops
      free_at = std::max(free_at, now) + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                             1e9 * static_cast<double>(got) / bytes_per_s));
      queue.push_back({free_at + delay, {buffer.begin(), buffer.begin() + got}});
      queued += size;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "far_link DEVICE_A DEVICE_B DELAY_MS MBIT_S\n");
    return 2;
  }
  const int a = open_tun(argv[1]);
  const int b = open_tun(argv[2]);
  const auto half = std::chrono::nanoseconds(static_cast<std::int64_t>(std::atof(argv[3]) * 5e5));
  const double rate = std::atof(argv[4]) * 1e6 / 8;
  std::printf("ready\n");
  std::fflush(stdout);
  std::thread back([&] { carry(b, a, half, rate); });
  carry(a, b, half, rate);
}
