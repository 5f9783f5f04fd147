#include <cstdio>

int main() {
  std::puts("millrace");
  return 0;
}
