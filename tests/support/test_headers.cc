// Owns the precompiled headers of all test programs (cmake/MillraceRoom.cmake).
int main() { return 0; }
