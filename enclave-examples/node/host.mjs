// Hosts the training module of ../wasm, only on node: node node/host.mjs MODULE.wasm
//
// It stores the enclave's sealed blobs, restarts it repeatedly, and prints the output of the native program. Then it
// plays the host
// that the enclave must not trust: it withholds, changes and replays blobs. Ends with 1 if a result is wrong.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'

const module = new WebAssembly.Module(readFileSync(process.argv[2]))
const STATUS = ['ok', 'budget spent', 'not authentic', 'ledger', 'counter', 'stale', 'refused']

/** The trusted platform: hardware or a service. Here it is simulated, and is as secret as this process. */
class Platform {
  count = 0n
  key = randomBytes(32)
}

/** The untrusted storage of the host. It keeps every blob that it ever received. */
class Shelf {
  ledgers = []
  states = []
}

/** A fresh instance, whose memory holds nothing of an earlier instance. */
function start(platform, shelf, ledger = shelf.ledgers.at(-1)) {
  const bytes = (at, len) => new Uint8Array(exports.memory.buffer, at, len)
  const { exports } = new WebAssembly.Instance(module, {
    platform: {
      counter_read: () => platform.count,
      counter_increment: () => ++platform.count,
      sealing_key: (to) => bytes(to, 32).set(platform.key),
      entropy: (to, len) => bytes(to, len).set(randomBytes(len)),
    },
    host: {
      put_ledger: (from, len) => shelf.ledgers.push(ledger = bytes(from, len).slice()) && 1,
      get_ledger: (to, len) => {
        if (!ledger) return 0
        bytes(to, len).set(ledger.subarray(0, len))
        return ledger.length
      },
    },
  })
  const say = (number) => STATUS[number] ?? `status ${number}`
  return {
    exports,
    provision: () => say(exports.provision()),
    resume: (state, burn = 0) => {
      bytes(exports.buffer(), exports.state_len()).set(state)
      return say(exports.resume(burn))
    },
    step: () => say(exports.step()),
    seal: () => {
      assert.equal(say(exports.seal()), 'ok')
      shelf.states.push(bytes(exports.buffer(), exports.state_len()).slice())
    },
    /** Released parameters, the only unsealed output of the enclave. */
    released: () => bytes(exports.params(), 4 * exports.dim()).slice(),
  }
}

function fnv1a64(bytes) {
  let digest = 0xcbf29ce484222325n
  for (const byte of bytes) digest = BigInt.asUintN(64, (digest ^ BigInt(byte)) * 0x100000001b3n)
  return digest.toString(16).padStart(16, '0')
}

const changed = (blob) => blob.with(7, blob[7] ^ 1)

// A run with a restart after every seven steps: state in, released parameters out.
const platform = new Platform()
const shelf = new Shelf()
let enclave = start(platform, shelf)
assert.equal(enclave.provision(), 'ok')
enclave.seal()
const { dim, samples } = enclave.exports
console.log(`train: dp-sgd, softmax of ${dim()} parameters, ${samples()} samples, simulation, the key is known`)
let said = 'ok'
let restarts = 0
while (said === 'ok') {
  enclave = start(platform, shelf)
  restarts += 1
  assert.equal(enclave.resume(shelf.states.at(-1)), 'ok')
  for (let step = 0; step < 7 && (said = enclave.step()) === 'ok'; step += 1) enclave.seal()
}
assert.equal(said, 'budget spent')
assert.equal(restarts, 6)
const { paid, held_out_right, held_out } = enclave.exports
console.log(`budget spent after ${paid()} steps`)
console.log(`held out: ${held_out_right()} of ${held_out()} right`)
console.log(`params fnv1a64 ${fnv1a64(enclave.released())}`)

// Attacks of the untrusted host. Each line is tried, and asserted.
const budget = paid()
const newest = shelf.states.at(-1)
const tried = []
function refuses(what, why, act) {
  assert.equal(act(), why, what)
  tried.push(`${what}: ${why}`)
}
refuses('an older state', 'stale', () => start(platform, shelf).resume(shelf.states[20]))
refuses('a changed state', 'not authentic', () => start(platform, shelf).resume(changed(newest)))
refuses('a changed ledger', 'not authentic', () => start(platform, shelf, changed(shelf.ledgers.at(-1))).resume(newest))
refuses('no ledger', 'ledger', () => start(platform, shelf, null).resume(newest))
refuses('a second provisioning', 'ledger', () => start(platform, shelf).provision())
refuses('a step without a run', 'refused', () => start(platform, shelf).step())
refuses('another machine', 'not authentic', () => start({ count: platform.count, key: randomBytes(32) }, shelf).resume(newest))
refuses('a counter that was put back', 'counter', () => start({ ...platform, count: 3n }, shelf).resume(newest))
for (const old of shelf.ledgers) {
  enclave = start(platform, shelf, old)
  assert.equal(enclave.resume(shelf.states[20], 1), 'ok')
  assert.equal(enclave.exports.paid(), budget)
  assert.equal(enclave.step(), 'budget spent')
}
tried.push('each of the old ledgers, with an older state: budget spent')

// A crash between charge and release burns the step. The run continues from the previous state, if its owner requests
// this.
{
  const platform = new Platform()
  const shelf = new Shelf()
  let enclave = start(platform, shelf)
  assert.equal(enclave.provision(), 'ok')
  for (let step = 0; step < 10; step += 1) assert.equal(enclave.step(), 'ok')
  enclave.seal()
  assert.equal(enclave.step(), 'ok')
  const twin = start(platform, shelf)
  refuses('a state that a crash left behind', 'stale', () => twin.resume(shelf.states[0]))
  assert.equal(twin.resume(shelf.states[0], 1), 'ok')
  assert.equal(twin.exports.paid(), 11)
  assert.equal(twin.step(), 'ok')
  refuses('an instance beside the newest', 'counter', () => enclave.step())
  enclave = start(platform, shelf)
  twin.seal()
  // The refused instance has taken a count, which counts as charged.
  assert.equal(enclave.resume(shelf.states[1], 1), 'ok')
  assert.equal(enclave.exports.paid(), 13)
  let steps = 0
  while (enclave.step() === 'ok') steps += 1
  assert.equal(steps, budget - 13)
}
for (const line of tried) console.error(line)
