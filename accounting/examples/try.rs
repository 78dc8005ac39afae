use damper_accounting::pld::*;
use damper_core::accounting::event::*;
fn main(){
  let a:Vec<f64>=std::env::args().skip(1).map(|x|x.parse().unwrap()).collect();
  let e=Event::new(Rate::at_most(a[0]).unwrap(),a[1]).unwrap();
  let ev=[(e,a[2] as u64)];
  let t=std::time::Instant::now();
  let up=epsilon(&ev,Neighbours::AddOrRemove,a[3]).unwrap(); let t1=t.elapsed();
  let lo=epsilon_at_least(&ev,Neighbours::AddOrRemove,a[3]).unwrap(); let t2=t.elapsed();
  println!("{up} {lo} gap {:.3e} rel {:.3e} time {t1:?} {t2:?}", up-lo,(up-lo)/up);
}
