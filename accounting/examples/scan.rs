use damper_accounting::pld::*;
use damper_core::accounting::event::*;
fn main(){
  let mut worst=0.0f64; let mut n=0; let mut slow=0.0f64;
  for q in [1e-5,1e-4,1e-3,1e-2,0.1,0.5,0.9,1.0f64]{ for s in [0.3,0.4,0.6,1.0,2.0,5.0,20.0]{ for t in [1u64,10,300,10000,100000]{ for d in [1e-10,1e-6,1e-3]{
    let ev=[(Event::new(Rate::at_most(q).unwrap(),s).unwrap(),t)];
    let c=std::time::Instant::now();
    let up=epsilon(&ev,Neighbours::AddOrRemove,d).unwrap_or(f64::NAN); let t1=c.elapsed().as_secs_f64();
    if !(up>=0.0){println!("NAN {q} {s} {t} {d}");}
    if up<0.01||up>100.0 {continue;}
    let lo=epsilon_at_least(&ev,Neighbours::AddOrRemove,d).unwrap();
    let g=(up-lo)/f64::max(0.005*lo,1e-4); n+=1; worst=worst.max(g); slow=slow.max(t1);
    if g>0.4||t1>0.15 {println!("{q} {s} {t} {d}: {up} {lo} {g:.3} {t1:.3}");}
  }}}}
  println!("{n} worst {worst} slowest {slow}");
}
