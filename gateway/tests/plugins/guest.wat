;; A hand-written format plugin whose parser does what the first letter of a push says, well or badly.
(module
  (import "[export]sluicegate:format/parse@0.1.0" "[resource-new]parser" (func $new_parser (param i32) (result i32)))
  (import "[export]sluicegate:format/parse@0.1.0" "[resource-rep]parser" (func $rep_parser (param i32) (result i32)))
  (import "[export]sluicegate:format/parse@0.1.0" "[resource-drop]parser" (func $drop_parser (param i32)))
  (import "[export]sluicegate:format/parse@0.1.0" "[resource-new]toolset" (func $new_toolset (param i32) (result i32)))
  ;;IMPORT

  (memory (export "memory") 32)
  (global $heap (mut i32) (i32.const 1048576))
  (global $state (mut i32) (i32.const 131072))
  (global $free (mut i32) (i32.const 0))
  (global $live (mut i32) (i32.const 0))
  (global $total (mut i32) (i32.const 0))
  ;;DATA

  ;; Arguments live from the heap's base until the call that they belong to returns.
  (func $alloc (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $new)))
    (block $fits
      (loop $grow
        (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
        (br $grow)))
    (local.get $at))
  (func $reset (global.set $heap (i32.const 1048576)))

  (func $forever (loop $again (br $again)))
  (func $recurse (param i32) (result i32)
    (i32.add (local.get 0) (call $recurse (i32.add (local.get 0) (i32.const 1)))))
  (func $eat (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable)

  (func (export "sluicegate:format/meta@0.1.0#describe") (result i32)
    ;;DESCRIBE
    (i32.const ;;ROOT
    ))

  (func (export "sluicegate:format/parse@0.1.0#[constructor]toolset") (param i32 i32) (result i32)
    (call $reset)
    (call $new_toolset (i32.const 1)))
  (func (export "sluicegate:format/parse@0.1.0#[dtor]toolset") (param i32))

  ;; State of a parser: number of pushes, next free state, what finish and the destructor do.
  (func (export "sluicegate:format/parse@0.1.0#[constructor]parser") (param $config i32) (result i32)
    (local $self i32) (local $model i32)
    (if (i32.load offset=12 (local.get $config))
      (then
        (local.set $model (i32.load8_u (i32.load offset=8 (local.get $config))))
        (if (i32.eq (local.get $model) (i32.const 84)) (then unreachable))                 ;; T
        (if (i32.eq (local.get $model) (i32.const 76)) (then (call $forever)))))           ;; L
    (call $reset)
    (if (global.get $free)
      (then
        (local.set $self (global.get $free))
        (global.set $free (i32.load offset=4 (local.get $self))))
      (else
        (local.set $self (global.get $state))
        (global.set $state (i32.add (global.get $state) (i32.const 16)))))
    (i32.store (local.get $self) (i32.const 0))
    (i32.store offset=8 (local.get $self) (i32.const 0))
    (global.set $live (i32.add (global.get $live) (i32.const 1)))
    (call $new_parser (local.get $self)))
  (func (export "sluicegate:format/parse@0.1.0#[dtor]parser") (param $self i32)
    (if (i32.eq (i32.load offset=8 (local.get $self)) (i32.const 75)) (then unreachable))  ;; K
    (i32.store offset=4 (local.get $self) (global.get $free))
    (global.set $free (local.get $self))
    (global.set $live (i32.sub (global.get $live) (i32.const 1))))

  ;; The return area of steps and tails is at 64, events are at 256, texts at 1024.
  (func $hold (result i32) (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func $pass (result i32)
    (i32.store8 (i32.const 64) (i32.const 1)) (i32.store8 offset=4 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func $events (param $at i32) (param $count i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 2))
    (i32.store offset=4 (i32.const 64) (local.get $at))
    (i32.store offset=8 (i32.const 64) (local.get $count))
    (i32.const 64))
  ;; An event with one string, `n`-th in the list at `list`.
  (func $event (param $list i32) (param $n i32) (param $case i32) (param $text i32) (param $bytes i32)
    (local $at i32)
    (local.set $at (i32.add (local.get $list) (i32.mul (local.get $n) (i32.const 28))))
    (i32.store8 (local.get $at) (local.get $case))
    (i32.store offset=4 (local.get $at) (local.get $text))
    (i32.store offset=8 (local.get $at) (local.get $bytes)))
  (func $letter (param $n i32) (result i32)
    (i32.store8 (i32.const 1024) (i32.add (i32.const 97) (i32.rem_u (local.get $n) (i32.const 26))))
    (call $event (i32.const 256) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1))
    (call $events (i32.const 256) (i32.const 1)))
  (func $flood (param $count i32) (param $bytes i32) (result i32)
    (local $list i32) (local $n i32)
    (local.set $list
      (call $alloc (i32.const 0) (i32.const 0) (i32.const 4) (i32.mul (local.get $count) (i32.const 28))))
    (loop $next
      (call $event (local.get $list) (local.get $n) (i32.const 0) (i32.const 0) (local.get $bytes))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (local.get $count))))
    (call $events (local.get $list) (local.get $count)))
  ;; A whole call of `f` whose arguments are what follows the first letter.
  (func $tool (param $text i32) (param $bytes i32) (result i32)
    (i32.store8 (i32.const 1024) (i32.const 102))
    (i32.store8 (i32.const 256) (i32.const 2))
    (i32.store (i32.const 260) (i32.const 0))
    (i32.store8 (i32.const 264) (i32.const 0))
    (i32.store (i32.const 276) (i32.const 1024))
    (i32.store (i32.const 280) (i32.const 1))
    (i32.store8 (i32.const 284) (i32.const 3))
    (i32.store (i32.const 288) (i32.const 0))
    (i32.store (i32.const 292) (i32.add (local.get $text) (i32.const 1)))
    (i32.store (i32.const 296) (i32.sub (local.get $bytes) (i32.const 1)))
    (i32.store8 (i32.const 312) (i32.const 4))
    (i32.store (i32.const 316) (i32.const 0))
    (call $events (i32.const 256) (i32.const 3)))
  ;; Arguments for a call that never began.
  (func $stray (result i32)
    (i32.store8 (i32.const 256) (i32.const 3))
    (i32.store (i32.const 260) (i32.const 7))
    (i32.store (i32.const 264) (i32.const 1024))
    (i32.store (i32.const 268) (i32.const 1))
    (call $events (i32.const 256) (i32.const 1)))

  (func $push (export "sluicegate:format/parse@0.1.0#[method]parser.push")
    (param $self i32) (param $text i32) (param $bytes i32) (result i32)
    (local $letter i32)
    (call $reset)
    (global.set $total (i32.add (global.get $total) (i32.const 1)))
    (i32.store (local.get $self) (i32.add (i32.load (local.get $self)) (i32.const 1)))
    (local.set $letter (i32.load8_u (local.get $text)))
    (if (i32.eq (local.get $letter) (i32.const 76)) (then (call $forever)))                                  ;; L
    (if (i32.eq (local.get $letter) (i32.const 84)) (then unreachable))                                      ;; T
    (if (i32.eq (local.get $letter) (i32.const 77)) (then (call $eat)))                                      ;; M
    (if (i32.eq (local.get $letter) (i32.const 82)) (then (drop (call $recurse (i32.const 0)))))             ;; R
    (if (i32.eq (local.get $letter) (i32.const 88)) (then (if (i32.gt_u (global.get $live) (i32.const 1)) (then unreachable)))) ;; X
    (if (i32.eq (local.get $letter) (i32.const 68)) (then (i32.store offset=8 (local.get $self) (i32.const 68)))) ;; D
    (if (i32.eq (local.get $letter) (i32.const 75)) (then (i32.store offset=8 (local.get $self) (i32.const 75)))) ;; K
    (if (i32.eq (local.get $letter) (i32.const 80)) (then (drop (memory.grow (i32.const 112)))))             ;; P
    (if (i32.eq (local.get $letter) (i32.const 70)) (then (return (call $flood (i32.const 10000) (i32.const 65536))))) ;; F
    (if (i32.eq (local.get $letter) (i32.const 69)) (then (return (call $flood (i32.const 10000) (i32.const 0)))))     ;; E
    (if (i32.eq (local.get $letter) (i32.const 66)) (then (return (call $flood (i32.const 1) (i32.const 65536)))))     ;; B
    (if (i32.eq (local.get $letter) (i32.const 72)) (then (return (call $hold))))                            ;; H
    (if (i32.eq (local.get $letter) (i32.const 67)) (then (return (call $letter (i32.load (local.get $self)))))) ;; C
    (if (i32.eq (local.get $letter) (i32.const 71)) (then (return (call $letter (global.get $total)))))      ;; G
    (if (i32.eq (local.get $letter) (i32.const 83)) (then (return (call $tool (local.get $text) (local.get $bytes))))) ;; S
    (if (i32.eq (local.get $letter) (i32.const 65)) (then (return (call $stray))))                           ;; A
    (if (i32.eq (local.get $letter) (i32.const 86)) (then                                                    ;; V
      (call $event (i32.const 256) (i32.const 0) (i32.const 0) (i32.load (i32.const ;;VERSION
      )) (i32.load offset=4 (i32.const ;;VERSION
      )))
      (return (call $events (i32.const 256) (i32.const 1)))))
    (if (i32.eq (local.get $letter) (i32.const 73)) (then                                                    ;; I
      (i32.store8 (i32.const 1024) (i32.const 255))
      (call $event (i32.const 256) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1))
      (return (call $events (i32.const 256) (i32.const 1)))))
    (call $pass))
  (func (export "sluicegate:format/parse@0.1.0#[method]parser.push-tokens")
    (param $self i32) (param $text i32) (param $bytes i32) (param i32) (param i32) (result i32)
    (call $push (local.get $self) (local.get $text) (local.get $bytes)))
  (func (export "sluicegate:format/parse@0.1.0#push-batch") (param i32 i32) (result i32) unreachable)

  (func (export "sluicegate:format/parse@0.1.0#[static]parser.finish")
    (param $handle i32) (param i32 i32 i32) (result i32)
    (local $self i32)
    (call $reset)
    (local.set $self (call $rep_parser (local.get $handle)))
    (if (i32.eq (i32.load offset=8 (local.get $self)) (i32.const 68)) (then unreachable))
    (drop (call $letter (i32.load (local.get $self))))
    (call $drop_parser (local.get $handle))
    (i32.store (i32.const 64) (i32.const 256))
    (i32.store offset=4 (i32.const 64) (i32.const 1))
    (i32.store8 offset=8 (i32.const 64) (i32.const 0))
    (i32.const 64))

  ;;START
)
