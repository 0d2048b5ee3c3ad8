// Kernels of one block, in pairs: without a race, and with one. They are plain CUDA: who includes them says
// what PAIR, me(), dynamic_shared() and spin_until() are.

/// What the threads of the block share: all zero at first.
struct Room {
  int lock, next, now, count, flag[8], data[64];
  unsigned long long word[8];
};
__device__ Room& room() {
  Room& r = *dynamic_shared<Room>();
  for (unsigned i = threadIdx.x; i < sizeof r / sizeof(int); i += blockDim.x)
    reinterpret_cast<int*>(&r)[i] = 0;
  __syncthreads();
  return r;
}
template <class T>
__device__ volatile T& seen(T& x) {
  return x;
}
template <class T>
__device__ void await(T& x, T value) {
  spin_until([&] { return seen(x) == value; });
}
__device__ void fence(bool there = true) {
  if (there) __threadfence_block();
}
__device__ int warp() { return me() / 32; }
__device__ bool leads() { return me() % 32 == 0; }

/// What comes before a barrier, and after it.
#define BETWEEN(NAME, BARRIER, BEFORE, AFTER)                    \
  PAIR(NAME, 1, 64) {                                            \
    Room& r = room();                                            \
    [[maybe_unused]] int* const s = r.data;                      \
    [[maybe_unused]] volatile int* const v = s;                  \
    [[maybe_unused]] const int mine = me(), one = 1 + int(f[0]); \
    BEFORE;                                                      \
    if (good) BARRIER;                                           \
    AFTER;                                                       \
  }
BETWEEN(neighbour_in_shared, __syncthreads(), s[mine] = mine, a[mine] = s[63 - mine])
BETWEEN(warp_neighbour, __syncwarp(), s[mine] = mine, a[mine] = s[mine ^ 1])
BETWEEN(volatile_neighbour, __syncwarp(), v[mine] = mine, a[mine] = v[mine ^ 1])
BETWEEN(volatile_of_a_block, __syncthreads(), v[mine] = mine, a[mine] = v[63 - mine])
BETWEEN(syncwarp_for_block, __syncthreads(), v[mine] = mine; __syncwarp(), a[mine] = v[63 - mine])
BETWEEN(fence_for_barrier, __syncthreads(), v[mine] = mine; __threadfence_block(), a[mine] = v[63 - mine])
BETWEEN(ballot_between, static_cast<void>(__ballot_sync(~0u, mine > 3)), s[mine] = mine,
        a[mine] = s[mine ^ 1])
BETWEEN(halves_apart, static_cast<void>(0), s[mine] = mine;
        __syncwarp(mine % 32 < 16 ? 0xffffu : 0xffff0000u), a[mine] = s[good ? mine ^ 15 : mine ^ 16])
BETWEEN(neighbour_in_global, __syncthreads(), a[mine] = mine, a[64 + mine] = a[63 - mine])
BETWEEN(ldg_of_own_launch, static_cast<void>(0), a[mine] = mine;
        __syncthreads(), a[64 + mine] = good ? a[63 - mine] : __ldg(&a[63 - mine]))
BETWEEN(one_writes_all_read, __syncthreads(), if (mine == 31) r.count = a[0], a[mine] = r.count + 1)
BETWEEN(all_read_one_writes, __syncthreads(), a[mine] = r.count + 1, if (mine == 31) r.count = 5)
BETWEEN(pipeline, __syncthreads(), const int before = s[(mine + 63) % 64], s[mine] = before + mine)
BETWEEN(histogram_read_early, __syncthreads(), atomicAdd(&s[mine % 4], 1), if (mine < 4) a[mine] = s[mine])
BETWEEN(memcpy_of_any_length, __syncthreads(), memcpy(s + mine, a + mine, one * sizeof *s),
        a[64 + mine] = s[63 - mine])
BETWEEN(memset_of_all, __syncthreads(), s[mine] = mine, if (mine == 40) memset(s, one, sizeof r.data))
BETWEEN(early_return, __syncthreads(), if (mine >= 32) s[mine] = mine, if (mine >= 32) return;
        __syncthreads(); a[mine] = s[mine + 32])

template <bool good, class T>
__device__ void reduce(T* s) {
  s[me()] = me();
  for (int d = 16; d > 0; d /= 2) {
    if (good) __syncwarp();
    const int other = s[me() ^ d];
    if (good) __syncwarp();
    s[me()] = s[me()] + other;
  }
}
PAIR(warp_reduction, 1, 32) { reduce<good, int>(room().data); }
PAIR(volatile_warp_reduction, 1, 32) { reduce<good, volatile int>(room().data); }
PAIR(tile_used_again, 1, 64) {
  int* const s = room().data;
  for (int round = 0; round < 2; ++round) {
    s[me()] = round;
    __syncthreads();
    a[me()] += s[63 - me()];
    if (good) __syncthreads();
  }
}
PAIR(histogram, 1, 64) {
  int& bin = room().data[me() % 4];
  if (good) atomicAdd(&bin, 1);
  if (!good) ++bin;
}
PAIR(volatile_read_before_claim, 1, 64) {
  int& key = room().data[me() % 8];
  const int found = good ? int{seen(key)} : int{key};
  if (found == 0) atomicCAS(&key, 0, me());
}
PAIR(halves_of_a_word, 1, 64) {
  Room& r = room();
  if (good || me() < 32) atomicAdd(&r.word[0], 1ull << me());
  if (!good && me() >= 32) atomicAdd(reinterpret_cast<unsigned*>(&r.word[0]) + 1, 1u);
}

// ---- locks ----
/// Where it is bad, nothing is said to the next holder.
#define LOCK(NAME, TAKE, LET_GO) \
  PAIR(NAME, 1, 64) {            \
    Room& r = room();            \
    TAKE;                        \
    r.data[0] += me();           \
    fence(good);                 \
    LET_GO;                      \
  }
__device__ void take(int& lock) {
  spin_until([&] { return atomicCAS(&lock, 0, 1) == 0; });
  fence();
}
LOCK(spin_lock, take(r.lock), atomicExch(&r.lock, 0))
LOCK(let_go_by_volatile, take(r.lock), seen(r.lock) = 0)
LOCK(try_lock, if (atomicCAS(&r.lock, 0, 1) != 0) return; fence(), atomicExch(&r.lock, 0))
LOCK(ticket_lock, const int mine = atomicAdd(&r.next, 1); await(r.now, mine); fence(), seen(r.now) = mine + 1)
LOCK(ticket_read_again, await(r.now, atomicAdd(&r.next, 1)); fence(), seen(r.now) = seen(r.now) + 1)
LOCK(hand_over_hand, if (!leads()) return; await(r.now, warp()); fence(), seen(r.now) = warp() + 1)
LOCK(taken_by_subtraction,
     spin_until([&] { return atomicSub(&r.count, 1) == 0 || (atomicAdd(&r.count, 1), false); });
     fence(), atomicAdd(&r.count, 1))
LOCK(peterson, if (!leads()) return; const int other = 1 - warp(); seen(r.flag[warp()]) = 1; fence();
     seen(r.next) = other; fence();
     spin_until([&] { return seen(r.flag[other]) == 0 || seen(r.next) != other; });
     fence(), seen(r.flag[warp()]) = 0)
PAIR(exchange_of_a_ref, 1, 64) {
  const atomic_ref<int, thread_scope_block> lock(room().lock);
  spin_until([&] { return lock.exchange(1, memory_order_acquire) == 0; });
  a[0] += me();
  lock.store(0, good ? memory_order_release : memory_order_relaxed);
}
PAIR(once, 1, 64) {
  // Looked at first without the lock, then with it.
  Room& r = room();
  if (seen(r.flag[0]) == 0) {
    take(r.lock);
    if (seen(r.flag[0]) == 0) {
      r.data[0] = 7;
      fence(good);
      seen(r.flag[0]) = 1;
    }
    fence();
    atomicExch(&r.lock, 0);
  }
  fence(good);
  a[me()] = r.data[0];
}

// ---- flags ----
/// The first warp has something for the second.
#define FLAG(NAME, JOIN, PUBLISH, AWAIT)                                       \
  PAIR(NAME, 1, 64) {                                                          \
    Room& r = room();                                                          \
    [[maybe_unused]] const atomic_ref<int, thread_scope_block> ref(r.flag[0]); \
    if (warp() == 0) {                                                         \
      r.data[me()] = me();                                                     \
      if (JOIN) __syncwarp();                                                  \
      if (!leads()) return;                                                    \
      PUBLISH;                                                                 \
    } else {                                                                   \
      AWAIT;                                                                   \
      a[me()] = r.data[63 - me()];                                             \
    }                                                                          \
  }
FLAG(volatile_flag_in_shared, true, fence(good); seen(r.flag[0]) = 1, await(r.flag[0], 1); fence())
FLAG(flag_for_one_lane, good, fence(); seen(r.flag[0]) = 1, await(r.flag[0], 1); fence())
FLAG(flag_in_a_loop, true, fence(good); seen(r.flag[0]) = 1, while (seen(r.flag[0]) == 0) __nanosleep(20);
     fence())
FLAG(exchanged_flag, true, fence(good); atomicExch(&r.flag[0], 1), await(r.flag[0], 1); fence())
FLAG(ref_flag, true, ref.store(1, good ? memory_order_release : memory_order_relaxed),
     spin_until([&] { return ref.load(memory_order_acquire) == 1; }))
PAIR(ring, 1, 64) {
  // Warp 0 fills two places in turn, warp 1 empties them.
  Room& r = room();
  for (int i = 0; i < 6; ++i) {
    const int place = i % 2;
    await(r.flag[place], warp());
    __syncwarp();
    fence();
    int* const data = r.data + place * 32;
    if (warp() == 0) data[me()] = i;
    if (warp() == 1) a[me()] += data[63 - me()];
    if (good || warp() == 0) __syncwarp();
    fence();
    if (leads()) seen(r.flag[place]) = 1 - warp();
    __syncwarp();
  }
}
/// The first lane of each of four warps.
#define LEADERS(NAME)                         \
  template <bool good>                        \
  __device__ void NAME##_of(int* a, Room& r); \
  PAIR(NAME, 1, 128) {                        \
    Room& r = room();                         \
    if (leads()) NAME##_of<good>(a, r);       \
  }                                           \
  template <bool good>                        \
  __device__ void NAME##_of([[maybe_unused]] int* a, Room& r)
LEADERS(look_back_in_words) {
  // A word holds sum and state; what stands beside it needs a fence.
  unsigned long long before = 0;
  if (warp() > 0) spin_until([&] { return (before = seen(r.word[warp() - 1])) != 0; });
  r.data[warp()] = warp();
  seen(r.word[warp()]) = before + 1;
  a[warp()] = good || warp() == 0 ? static_cast<int>(before) : r.data[warp() - 1];
}
LEADERS(look_back) {
  seen(r.data[warp()]) = warp();
  fence(good);
  seen(r.flag[warp()]) = 1;
  int sum = warp();
  for (int w = warp() - 1, state = 1; w >= 0 && state == 1; --w) {
    spin_until([&] { return (state = seen(r.flag[w])) != 0; });
    fence();
    sum += state == 2 ? r.data[8 + w] : r.data[w];
  }
  r.data[8 + warp()] = sum;
  fence(good);
  seen(r.flag[warp()]) = 2;
}
LEADERS(sense_barrier) {
  for (int round = 1; round < 4; ++round) {
    int* const data = r.data + round % 2 * 4;
    data[warp()] = round;
    fence(good);
    if (atomicAdd(&r.count, 1) == 3) {
      fence();
      r.count = 0;
      fence();
      seen(r.now) = round;
    }
    await(r.now, round);
    fence();
    a[warp()] += data[3 - warp()];
  }
}
LEADERS(count_of_arrivals) {
  r.data[warp()] = warp();
  fence(good);
  atomicAdd(&r.count, 1);
  while (seen(r.count) != 4) __nanosleep(20);
  fence();
  a[warp()] = r.data[3 - warp()];
}
PAIR(stop_early, 1, 64) {
  Room& r = room();
  for (int i = 0; i < 4 && seen(r.flag[0]) == 0; ++i) {
    if (me() != 40 || i != 1) continue;
    fence();
    if (good) seen(r.flag[0]) = 1;
    if (!good) r.flag[0] = 1;
  }
}
